package pack

import "github.com/epbench/epbench/kernels/cuda/declare"

// The file has a header and then the sections. A section is a list of records without gaps, and begins on a 16-byte
// boundary. Numbers are little-endian. native/epcomm/src/pack.h declares the same records in C.

// Magic begins a pack.
const Magic = "EPCOMMPK"

// Version is the version of the file format. In version 1, regionRecord.Area and stateRecord.Numbers are 0.
const Version = 2

// Sections, by index of header.Sections.
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

const (
	flagShared = 1 << iota
	flagSkip
	flagReduced
	flagExact     // only for compute capability Major.Minor
	flagRaw       // callers pass fp8 tokens
	flagSurvivors // kernels continue without a lost rank
)

// Flags of a config, of a launch and of a module.
const (
	flagPlaces  = 1
	flagPDL     = 1
	flagNetwork = 1 // announce the module to NVSHMEM
)

type section struct {
	Offset uint64
	Count  uint32 // records
	Stride uint32 // bytes of a record; 1 for text and binaries
}

type header struct {
	Magic       [8]byte
	Version     uint32
	HeaderBytes uint32
	FileBytes   uint64
	Digest      [32]byte // SHA-256 of all bytes after this field
	ABI         [32]byte // SHA-256 of the string at Kernels
	Evidence    [32]byte // SHA-256 of table ids
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
	MaxSMs      uint32 // 0: no bound
	LargestGrid uint32
	AlignModule uint32
	CallsModule uint32
	Kernels     uint32 // string: builds of kernels; 0 in old packs
	Layout      uint32 // index in ep.Layouts
	Sections    [sections]section
}

// hostsHeader follows the header if there are several nodes. HeaderBytes counts
// both headers.
type hostsHeader struct {
	Nodes   uint32
	Network [3]uint32 // NVSHMEM's version
}

// digestFrom is the offset of the first byte after header.Digest.
const digestFrom = 8 + 4 + 4 + 8 + 32

type dtypeRecord struct {
	DType      uint32 // 1 + index in ep.DTypes
	RowPad     uint32
	MaxRows    uint64
	RowBytes   uint64
	OutBytes   uint64
	ScaleBytes uint64
	Scales     uint32 // number of scales in one row
	ScaleSize  uint32 // bytes of one scale
}

type stateRecord struct {
	DType       uint32 // index of dtypeRecord
	Name        uint32 // string
	FirstRegion uint32
	Regions     uint32
	Counters    uint32
	Numbers     [2]uint16 // by op: number of a shared counter, or 0
}

type regionRecord struct {
	Bytes uint64
	Fill  uint8
	// Halves is 1 if calls alternate between the halves of the region, otherwise 0. Regions that share memory have the
	// same Halves. If Halves is 0, these regions begin at the same address. If it is 1, their second halves begin
	// at the same address.
	Halves uint8
	Area   uint16 // regions with equal Area share memory; 0: none
	Name   uint32
}

type moduleRecord struct {
	Offset uint64 // in the binaries
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
	Last      uint32 // largest token count
	Plan      uint32 // index of planRecord
	Elsewhere uint32 // index of the planRecord for outputs outside the symmetric heap
	Text      uint32
}
