// Package ep defines the types that all packages of epbench share. It imports only the standard library, so that an
// inference server can link it.
//
// In expert parallelism, a model's experts are spread over ranks (GPUs). Dispatch sends each token to the ranks of its
// experts, and combine brings the experts' outputs back. A pair is a dispatch and a combine that are tuned together.
//
//   - A [Problem] describes a call: operation, shape, dtypes and token count.
//   - A [Config] says how to launch a call: a kernel and its parameters. [Config.Key] returns the full spelling,
//     which [ParseConfig] reads. [Config.ID] returns a short name.
//   - A [Machine] describes the hardware. Machines with the same [Machine.Key] use the same tuned tables.
//   - A routing says which experts each token selects. Its [Class] says how uneven it is.
//   - A [Status] says how the measurement of a config ended.
package ep
