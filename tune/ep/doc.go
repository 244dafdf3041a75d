// Package ep defines the types that all packages of epbench share. It imports only the standard
// library, so that a process that serves a model can link it.
//
// The subject is expert parallelism. The experts of a model are spread over ranks, of which each is
// one GPU. The operation dispatch sends each token to the ranks of its experts, and the operation
// combine brings the experts' outputs back. A pair is a dispatch and a combine that are tuned
// together.
//
//   - A [Problem] describes a call: its operation, shape, dtypes and token count. It can be a map
//     key.
//   - A [Config] says how to launch a call: a kernel, and a [Value] for each of the kernel's
//     parameters. [Config.Key] returns its full spelling, and [ParseConfig] reads this spelling.
//     [Config.ID] returns a short name, which tables and logs show. [Join] makes the config of a pair
//     from the configs of a dispatch and a combine, and [Split] returns these two.
//   - A [Machine] describes the hardware on which a call runs. Two machines with the same
//     [Machine.Key] use the same tuned tables.
//   - A routing says which experts each token selects. A [Class] says how uneven a routing is:
//     [Classify] computes it from the number of selections of each expert.
//   - A [Status] says how the measurement of a config ended. If a config does not compile, or if its
//     outputs are wrong, that is a result with a status. It is not an error.
package ep
