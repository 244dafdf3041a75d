package pack

import "github.com/epbench/epbench/kernels/cuda/declare"

// The file is little-endian, and every part begins on a 16-byte boundary:
//
//	header, then for each section its records without gaps
//
// Readers check every number before they use it. native/epcomm/src/pack.h declares the same records
// in C.

// Magic is the first bytes of a pack.
const Magic = "EPCOMMPK"

// Version is the version of the file format.
const Version = 1

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
	flagExact // the binaries run on this compute capability only
	flagRaw   // tokens of dtype fp8 come as fp8 with scales
)

// Flags of a config, of a launch and of a module.
const (
	flagPlaces  = 1
	flagPDL     = 1
	flagNetwork = 1 // linked to the network's device library, to which the module must be announced
)

type section struct {
	Offset uint64
	Count  uint32 // records; bytes where Stride is 1
	Stride uint32
}

type header struct {
	Magic       [8]byte
	Version     uint32
	HeaderBytes uint32
	FileBytes   uint64
	Digest      [32]byte // SHA-256 of all bytes after this field
	ABI         [32]byte // SHA-256 of the builds of its kernels, spelled as in Kernels
	Evidence    [32]byte // SHA-256 of the ids of the tables that answered
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
	MaxSMs      uint32 // bound that the pack was asked to keep, 0 for none
	LargestGrid uint32
	AlignModule uint32
	CallsModule uint32
	Kernels     uint32 // string: the build of every kernel, see ep.ABI; 0 if only ABI has it
	Layout      uint32 // place in ep.Layouts
	Sections    [sections]section
}

// hostsHeader follows the header of a pack for ranks on several nodes, and HeaderBytes includes it.
// Packs for one host have none, so that older libraries read them.
type hostsHeader struct {
	Nodes   uint32
	Network [3]uint32 // version of NVSHMEM that the binaries are linked to
}

// digestFrom is the first byte that the digest covers.
const digestFrom = 8 + 4 + 4 + 8 + 32

type dtypeRecord struct {
	DType      uint32 // 1 + EP_BF16 and so on
	RowPad     uint32
	MaxRows    uint64
	RowBytes   uint64
	OutBytes   uint64
	ScaleBytes uint64 // of the whole output
	Scales     uint32 // of one row
	ScaleSize  uint32 // bytes of one
}

type stateRecord struct {
	DType       uint32 // index
	Name        uint32 // string
	FirstRegion uint32
	Regions     uint32
	Counters    uint32
	Unused      uint32
}

type regionRecord struct {
	Bytes uint64
	Fill  uint32
	Name  uint32
}

type moduleRecord struct {
	Offset uint64 // in the cubin section
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
	Class    uint32 // place in ep.Classes
	FirstRun uint32
	Runs     uint32
}

type runRecord struct {
	Last      uint32 // largest token count of the fullest rank that it answers
	Plan      uint32
	Elsewhere uint32 // plan for outputs that are not on the heap
	Text      uint32 // why
}
