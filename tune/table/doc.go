// Package table is what production links: tuned configs with the evidence for each,
// and the look-up that tells a serving process which config to launch. It imports the
// standard library and package ep only.
//
// A [Table] is a file, table.json. Its header names the machine and the kernels that
// it was measured on. Each [Row] has a [Key] (op, shape, dtypes, routing class,
// precision), an interval of token counts, a config and the [Evidence] for it. A row
// may also say that the default was measured and is at least as fast: then the answer
// is the default, for a reason.
//
// A serving process does four things, the first three once:
//
//   - [Open] reads the tables of several places and lays them over each other in a
//     [Set]: those compiled into the program (package embedded), the system's, the
//     user's, and one file. Row by row the upper table answers.
//   - [Set.Resolve] works the set out for this [Host] and problem: every token count,
//     every routing class.
//   - [Resolved.Agree] compares digests of all ranks. Where any differs, all ranks
//     take the default: a dispatch whose ranks launch different configs hangs.
//   - [Resolved.Lookup] answers a step from its token count and routing class. It is
//     an index into an array and allocates nothing.
//
// An [Answer] has a config and a [Reason]. Where no row matches exactly, the table's
// fallback fields may differ, in the order that its header gives them: usually the
// routing first, which leads to the row for all routings, then numbers of the shape,
// which lead to the nearest. Where that finds nothing, the answer is the default.
// Some things never differ: machine, kernels, rank count, dtypes, and precision for a
// caller who needs it full. Token counts are never stretched.
//
// [Load] is strict. It refuses a field that is unknown, missing, given twice or out of
// bounds, two rows over the same tokens of one key, and a file that was edited after
// it was written, and says on which line. A table of another machine or other kernels
// loads, and is refused by [Table.Refusal] when a host asks it. A table measured under
// another driver or CUDA version answers, marked as not verified.
//
// Tools ask [Set.Lookup] and [Set.Explain], which need no preparation. Package curate
// compares, merges and checks tables, and package export writes them as C, Python and
// Go.
package table
