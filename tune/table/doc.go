// Package table holds tuned configs with the evidence for each, and answers a serving
// process which config to launch. Production links it: it imports the standard library and
// package ep only.
//
// A [Table] is a file, table.json. Its header names the machine and the kernels that
// it was measured on. Each [Row] has a [Key] (op, shape, dtypes, routing class,
// precision), an interval of token counts, a config and the [Evidence] for it. A row
// can also say that the default was measured and is at least as fast.
//
// A serving process does four things, the first three once:
//
//   - [Open] reads the tables of several places and lays them over each other in a
//     [Set]: those compiled into the program (package embedded), the system's, the
//     user's, and one file. If several tables have a row for a question, the uppermost
//     table answers.
//   - [Set.Resolve] computes the answers for this [Host] and problem: every token count,
//     every routing class.
//   - [Resolved.Agree] compares digests of all ranks. If any digest differs, all ranks take
//     the default, because a dispatch hangs if its ranks launch different configs.
//   - [Resolved.Lookup] answers a step from its token count and routing class. It is
//     an index into an array and allocates nothing.
//
// An [Answer] has a config and a [Reason]. If no row matches exactly, a row may differ in
// the table's fallback fields, in the order of the header: usually in the routing first,
// which leads to the row for all routings, then in numbers of the shape, which lead to the
// nearest row. If there is none, the answer is the default. Machine, kernels, rank count and
// dtypes never differ, nor does precision for a caller that needs it full. A row answers
// only within its token interval.
//
// [Load] is strict. It refuses fields that are unknown, missing, doubled or out of bounds,
// two rows over the same tokens of one key, and a file that was edited after it was
// written. Its error names the line. A table of another machine or other kernels loads, but
// [Table.Refusal] refuses to let it answer on a host. A table measured under another driver
// or CUDA version answers, marked as not verified.
//
// Tools call [Set.Lookup] and [Set.Explain], which need no preparation. Package curate
// compares, merges and checks tables. Package export writes them in C, Python and Go.
package table
