// Package ep defines the vocabulary that all of epbench shares: problems, configs, machines
// and routing classes. It imports the standard library only, knows no kernel and does no
// input or output. So a serving process can link it together with package table.
//
// A [Problem] says what is moved: the operation ([Op]), how rounds are issued ([Mode]), the
// ranks, the model's hidden size, experts and top-k, the tokens of the fullest rank, the
// [DType] that a token travels as, and the [Precision] that the caller needs. A Problem is
// comparable: use it as a map key, or its Key as text. Validate refuses a field that is out
// of bounds; its error names the field, the bound and the way out.
//
// A [Config] says how to launch: the name of a kernel and a [Value] for each of its
// parameters. The zero Config stands for the default, which a caller without a table
// launches. A config has a full spelling, its Key, which [ParseConfig] reads back, and a
// short ID for tables and logs. [Join] makes the config of a pair from those of its halves,
// and [Split] takes it apart. Only a kernel's Check knows whether a config is legal. A
// [Cost] says what a config takes away from a model that runs at the same time.
//
// A [Machine] says where it runs. To a table, two machines with the same Key are the same;
// name, driver and CUDA version take no part in it.
//
// A [Class] says how uneven a routing is. A runtime counts how often each expert was
// selected and calls [Classify]. Package workloads classifies drawn routings by the same
// function.
//
// A [Status] says how the measurement of a config ended. A config that does not
// compile or gives wrong numbers is a result with a status, not an error.
package ep
