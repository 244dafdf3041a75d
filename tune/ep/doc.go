// Package ep defines the types that all of epbench shares: problems, configs, machines and routing
// classes. It imports only the standard library, so that a serving process can link it.
//
// A [Problem] describes a call and can be a map key.
//
// A [Config] names a kernel and a [Value] for each of its parameters. The zero Config stands for
// the default, which a caller without a table launches. [Config.Key] returns its full spelling, and
// [ParseConfig] reads it back. Tables and logs show its short ID. [Join] makes the config of a pair
// from the configs of a dispatch and a combine, and [Split] returns these two.
//
// A [Machine] says on which hardware a call runs. Tables treat machines with the same Key as the
// same machine.
//
// A [Class] says how uneven a routing is. A runtime counts how often each expert was selected and
// calls [Classify].
//
// A [Status] says how the measurement of a config ended. A config that does not compile or gives
// wrong numbers is a result with a status, not an error.
package ep
