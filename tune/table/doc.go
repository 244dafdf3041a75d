// Package table holds tuned configs with the evidence for each, and tells a serving process
// which config to launch. It imports only the standard library and package ep, so that a
// serving process can link it.
//
// A [Table] is a file, table.json. Its header names the machine and the kernels that
// it was measured on. Each [Row] has a [Key] (op, shape, dtypes, routing class,
// precision), an interval of token counts, a config and the [Evidence] for it. A row
// can also say that the default was measured and is at least as fast.
//
// A serving process does four things, the first three once:
//
//   - [Open] reads tables from several places and overlays them in a [Set]. The lowest
//     tables are those compiled into the program (package embedded). Above them are the
//     system's, the user's, and one file. If several tables have a row for a question,
//     the uppermost table answers.
//   - [Set.Resolve] computes the answers for one [Host] and problem, at every token count
//     and for every routing class.
//   - [Resolved.Agree] compares digests of all ranks. If any digest differs, all ranks take
//     the default, because a dispatch hangs if its ranks launch different configs.
//   - [Resolved.Lookup] answers a step from its token count and routing class. It only
//     indexes an array, and allocates nothing.
//
// An [Answer] has a config and a [Reason]. If no row matches exactly, a row answers that differs
// only in the table's fallback fields, which the header lists in order. Usually the first is the
// routing: the row for all routings then answers. Numbers of the shape come next: the row with the
// nearest numbers then answers. If no row answers, the answer is the default. The rank count and
// the dtypes never differ, nor the precision if the caller needs full precision. A row answers only
// within its token interval.
//
// [Load] is strict. It refuses fields that are unknown, missing, doubled or out of bounds. It also
// refuses two rows over the same tokens of one key, and a file that was edited after it was
// written. Its error names the line. A table of another machine or other kernels loads, but
// [Table.Refusal] refuses it on a host. The answers of a table that was measured under another
// driver or CUDA version are marked as not verified.
//
// Tools call [Set.Lookup] and [Set.Explain], which need no preparation. Package curate
// compares, merges and checks tables. Package export writes them in C, Python and Go.
package table
