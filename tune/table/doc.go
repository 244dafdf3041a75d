// Package table holds tuned configs with the evidence for each, and tells a serving process which
// config to launch. It imports only the standard library and package ep, so that a serving process
// can link it.
//
// A [Table] is a file, table.json. Its header names the machine and the kernels that it was
// measured on. Each [Row] has a [Key] (op, shape, dtypes, routing class, precision), an interval of
// token counts, a config and the [Evidence] for it.
//
// A serving process takes four steps, the first three only once:
//
//   - [Open] reads tables from several places and overlays them in a [Set]: the embedded
//     tables, then the system's, the user's, and one file. If rows of several tables match equally
//     well, the row of the last of these tables answers.
//   - [Set.Resolve] computes the answers for one [Host] and problem, at every token count
//     and for every routing class.
//   - [Resolved.Agree] compares digests of all ranks. If any digest differs, all ranks take
//     the default, because a dispatch hangs if its ranks launch different configs.
//   - [Resolved.Lookup] returns the answer for the token count and routing class of one step of the
//     model. It allocates nothing.
//
// An [Answer] has a config and a [Reason]. If no row matches exactly, a similar row may answer. It
// differs only in fields that the table's header lists as fallback: mostly it is the row for all
// routings, or a row of the nearest shape. If there is no such row, the answer is the default. The
// rank count never differs, nor the dtype of the tokens that the call sends. If the caller needs
// full precision, the row has full precision.
//
// [Load] is strict. It refuses unknown, missing and doubled fields, overlapping rows and edited
// files. Its error names the line.
//
// Package curate compares, merges and checks tables. Package export writes them in C, Python and
// Go.
package table
