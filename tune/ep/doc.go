// Package ep defines the types that all of epbench shares: problems, configs, machines and
// routing classes. It imports only the standard library, contains no kernel and does no input
// or output, so a serving process can link it together with package table.
//
// A [Problem] describes a call: the operation ([Op]), how rounds are issued ([Mode]), the ranks,
// the model's shape, the tokens of the fullest rank, the [DType] in which a token is sent, and the
// [Precision] that the caller needs. A Problem can be a map key.
//
// A [Config] says how to launch the call: the name of a kernel and a [Value] for each of the
// kernel's parameters. The zero Config stands for the default, which a caller without a table
// launches. A config has a full spelling, its Key, which [ParseConfig] reads, and a short ID
// for tables and logs. [Join] makes the config of a pair from the configs of a dispatch and a
// combine, and [Split] returns these two configs. Only a kernel's Check knows whether a config is
// legal. A [Cost] says which resources a config takes away from a model that runs at the same time.
//
// A [Machine] says on which hardware a call runs. Tables treat machines with the same Key as
// the same machine; the Key does not contain name, driver and CUDA version.
//
// A [Class] says how uneven a routing is. A runtime counts how often each expert was
// selected and calls [Classify]. Package workloads classifies drawn routings by the same
// function.
//
// A [Status] says how the measurement of a config ended. A config that does not
// compile or gives wrong numbers is a result with a status, not an error.
package ep
