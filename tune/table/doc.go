// Package table tells a process that serves a model which config to launch for a call. A config is a kernel with a
// value for each of its launch parameters. The package imports only the standard library and package ep, so that a
// serving process can link it.
//
// A [Table] is read from a file. Its header names the machine and the kernels on which it was measured. Each [Row]
// says which config is the best for one [Key] and an interval of token counts. The key holds the operation, the
// model's shape, the dtypes, the precision and the routing class, which says how unevenly the tokens select experts.
// [Evidence] holds the measurements.
//
// A serving process calls these functions, the first three only once:
//
//   - [Open] reads several tables into a [Set].
//   - [Set.Resolve] computes all answers for one [Host] and one problem.
//   - [Resolved.Agree] compares the answers of all ranks, by their digests. If any digest differs, all ranks use the
//     default config, because a dispatch with different configs would hang.
//   - [Resolved.Lookup] returns the answer for the token count and the routing class of one call. It allocates no
//     memory.
//
// An [Answer] has a config, and a [Reason] that says where the config is from. If no row has exactly the key of the
// question, a similar row may answer. The table's header lists the fields in which that row may differ. If there is no
// similar row either, the answer is the default config.
//
// Package curate compares, merges and checks tables. Package export writes tables as C, Python and Go.
package table
