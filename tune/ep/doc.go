// Package ep is the vocabulary that all of epbench shares: what is moved, how it is
// launched, on which machine, and how uneven the routing is. It imports the standard
// library only, knows no kernel and does no input or output, so that a serving
// process can link it together with package table.
//
// A [Problem] says what is moved, and nothing of how: the operation ([Op]), how
// rounds are issued ([Mode]), the ranks, the model's hidden size, experts and top-k,
// the tokens of the fullest rank, the [DType] that a token travels as, and the
// [Precision] that the caller needs. A Problem is comparable: use it as a map key, or
// its Key where text is needed. Validate refuses a field that is out of bounds, and
// its error names the field, the bound and the way out.
//
// A [Config] says how it is launched: the name of a kernel and a [Value] for each of
// its parameters. The zero Config stands for the default, which is what a caller
// without a table launches. A config has a full spelling, its Key, which [ParseConfig]
// reads back, and a short ID for tables and logs. The config of a pair is made of two
// by [Join] and taken apart by [Split]. Whether a kernel takes a config is not known
// here: that is the kernel's Check. A [Cost] is what a config takes away from the
// model that runs beside it.
//
// A [Machine] says where it runs. Two machines with the same Key are the same to a
// table; name, driver and CUDA version take no part in it.
//
// A [Class] says how uneven a routing is, as tables key it. A runtime counts how often
// each expert was selected and asks [Classify]; the class of a routing that was drawn
// for a measurement is found in the same way, by package workloads.
//
// A [Status] says how the measurement of a config ended. A config that does not
// compile or gives wrong numbers is a result with a status, not an error.
package ep
