// Package table tells a process that serves a model which config to launch for a call. A config is
// a kernel with a value for each of its launch parameters. The package imports only the standard
// library and package ep, so that a serving process can link it.
//
// A [Table] is read from a file, table.json. Its header names the machine and the kernels on which it
// was measured. Each [Row] says which config is the best for one [Key] and an interval of token
// counts. The key holds the operation, the shape of the model, the dtypes, the precision and the
// routing class, which says how unevenly the tokens select experts. The row also holds the
// [Evidence]: the measurements from which it was made.
//
// A serving process calls these functions, the first three only once:
//
//   - [Open] reads several tables and combines them in a [Set]: first the tables that are compiled
//     into the program, then tables of the system, tables of the user, and one more file. If rows of
//     several tables fit a question equally well, the table that was read last answers.
//   - [Set.Resolve] computes all answers for one [Host] and one problem, for every token count and
//     every routing class.
//   - [Resolved.Agree] compares the answers of all ranks, by their digests. If the ranks launched
//     different configs, a dispatch would hang. So if any digest differs, all ranks use the default
//     config.
//   - [Resolved.Lookup] returns the answer for the token count and the routing class of one call. It
//     allocates no memory.
//
// An [Answer] has a config, and a [Reason] that says where it is from. If no row has exactly the key
// of the question, a similar row may answer. The header of a table lists the fields in which a row
// may differ from the question; it calls them fallback. Mostly a similar row is the row for all
// routing classes, or a row for the nearest shape. If there is no similar row either, the answer is
// the default config. A row for another number of ranks, or for another dtype of the sent tokens,
// never answers. If the question asks for full precision, only a row with full precision answers.
//
// [Load] returns an error if a table has unknown, missing or repeated fields, if its rows overlap, or
// if its file was edited. The error names the line.
//
// Package curate compares, merges and checks tables. Package export writes tables as C, Python and
// Go.
package table
