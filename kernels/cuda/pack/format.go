package pack

import "github.com/epbench/epbench/kernels/cuda/declare"

// The file has a header and then the sections in order. A section is a list of records without gaps.
// Numbers are little-endian, and each section begins on a 16-byte boundary. Readers check every number
// before they use it. native/epcomm/src/pack.h declares the same records in C.

// Magic is the text with which a pack begins.
const Magic = "EPCOMMPK"

// Version is the version of the file format.
//
// Since version 2, regions can lie in areas and states can share call numbers. Version 1 has zeros there.
const Version = 2

// Sections of the file, by index of header.Sections.
const (
	secDTypes = iota
	secStates
	secRegions
	secModules
	secLaunches
	secConfigs
	secPlans
	secLookups
	secRuns
	secStrings
	secManifest
	secCubins
	sections
)

// Flags of the header.
const (
	flagShared = 1 << iota
	flagSkip
	flagReduced
	flagExact     // the binaries run only on the compute capability Major.Minor
	flagRaw       // with dtype fp8, the caller passes tokens in fp8 with scales
	flagSurvivors // the kernels continue without a lost rank
)

// Flags of a config, of a launch and of a module.
const (
	flagPlaces  = 1
	flagPDL     = 1
	flagNetwork = 1 // linked to NVSHMEM, which must be told when the module is loaded
)

type section struct {
	Offset uint64
	Count  uint32 // number of records
	Stride uint32 // bytes of one record; 1 for text and binaries
}

type header struct {
	Magic       [8]byte
	Version     uint32
	HeaderBytes uint32
	FileBytes   uint64
	Digest      [32]byte // SHA-256 of all bytes after this field
	ABI         [32]byte // SHA-256 of the string at Kernels
	Evidence    [32]byte // SHA-256 of the ids of the tables that were read
	Arch        [16]byte
	ArgsVersion uint32 // EP_ARGS_VERSION
	Major       uint32
	Minor       uint32
	Flags       uint32
	Ranks       uint32
	Hidden      uint32
	Experts     uint32
	TopK        uint32
	MaxTokens   uint32
	Groups      uint32
	MaxSMs      uint32 // requested bound on the SMs of a kernel, 0 for none
	LargestGrid uint32
	AlignModule uint32
	CallsModule uint32
	Kernels     uint32 // offset of a string: the build of every kernel, see ep.ABI; 0 in old packs
	Layout      uint32 // index in ep.Layouts
	Sections    [sections]section
}

// hostsHeader follows the header in packs for several nodes. HeaderBytes includes it. Packs for one
// host have no hostsHeader, so that older libraries can read them.
type hostsHeader struct {
	Nodes   uint32
	Network [3]uint32 // version of NVSHMEM to which the binaries are linked
}

// digestFrom is the first byte that the digest covers.
const digestFrom = 8 + 4 + 4 + 8 + 32

type dtypeRecord struct {
	DType      uint32 // 1 + the number of the dtype, such as EP_BF16
	RowPad     uint32 // number of rows to a multiple of which each group is padded
	MaxRows    uint64
	RowBytes   uint64
	OutBytes   uint64
	ScaleBytes uint64 // bytes of all scales of the output
	Scales     uint32 // number of scales of one row
	ScaleSize  uint32 // bytes of one scale
}

type stateRecord struct {
	DType       uint32 // index of its dtypeRecord
	Name        uint32 // offset of a string
	FirstRegion uint32
	Regions     uint32
	Counters    uint32
	Numbers     [2]uint16 // by op: states with the same number, if not 0, count their calls together; those with the same Numbers[0] also share counters
}

type regionRecord struct {
	Bytes  uint64
	Fill   uint8
	Halves uint8  // 1: in an area, the middles of the regions lie at the same place; 0: their beginnings
	Area   uint16 // regions with the same Area, if not 0, lie in the same memory
	Name   uint32
}

type moduleRecord struct {
	Offset uint64 // offset in the section of binaries
	Bytes  uint64
	Name   uint32
	Flags  uint32
}

type launchRecord struct {
	Module uint32
	Entry  uint32
	Grid   uint32
	Block  uint32
	Shared uint32
	Flags  uint32
	Words  [declare.LaunchWords]int32
	Unused uint32
}

type configRecord struct {
	Op          uint32 // 0 dispatch, 1 combine
	DType       uint32
	State       uint32
	FirstLaunch uint32
	Launches    uint32
	Flags       uint32
	Key         uint32
	Unused      uint32
}

type planRecord struct{ Dispatch, Combine uint32 }

type lookupRecord struct {
	DType    uint32
	Reduced  uint32
	Purpose  uint32
	Class    uint32 // index in ep.Classes
	FirstRun uint32
	Runs     uint32
}

type runRecord struct {
	Last      uint32 // largest token count of the run, on the fullest rank
	Plan      uint32 // index of its planRecord
	Elsewhere uint32 // index of the planRecord for outputs that are not on the symmetric heap
	Text      uint32 // offset of a string: why these configs were chosen
}
