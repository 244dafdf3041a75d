package worker

import (
	"io"
	"os"
	"slices"
)

// newRowsFile makes the file for probed rows, see VerifyParams.RowsFile. "" where there
// can be none: then rows come in the answer.
func newRowsFile() string {
	f, err := os.CreateTemp("", "epbench-rows-*")
	if err != nil {
		return ""
	}
	f.Close()
	return f.Name()
}

// writeRows fills a client's file. It is not made where it is missing: then the client is
// on another host.
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

// readRows takes rows of so many bytes out of a file, which is empty afterwards. A last row
// may be cut short.
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
