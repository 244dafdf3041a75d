package worker

import (
	"io"
	"os"
	"slices"
)

// newRowsFile makes VerifyParams.RowsFile and returns its name; "" if it cannot, and then
// rows come in the answer.
func newRowsFile() string {
	f, err := os.CreateTemp("", "epbench-rows-*")
	if err != nil {
		return ""
	}
	f.Close()
	return f.Name()
}

// writeRows fills the client's file. It does not create a missing one: then the client is on
// another host.
func writeRows(name string, rows []ProbeRow) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err = f.Write(row.Data); err != nil {
			break
		}
	}
	if end := f.Close(); err == nil {
		err = end
	}
	return err
}

// readRows returns the rows of a file, each of the given number of bytes, and empties the
// file. The last row may be shorter.
func readRows(name string, bytes int) (rows []ProbeRow) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil || f.Truncate(0) != nil {
		return nil
	}
	for row := range slices.Chunk(data, bytes) {
		rows = append(rows, ProbeRow{row})
	}
	return rows
}
