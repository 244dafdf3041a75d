package worker

import (
	"io"
	"os"
	"slices"
)

// newRowsFile makes the file for VerifyParams.RowsFile. After an error it returns "".
func newRowsFile() string {
	f, err := os.CreateTemp("", "epbench-rows-*")
	if err != nil {
		return ""
	}
	f.Close()
	return f.Name()
}

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

// readRows returns rows of the given size and empties the file. The last row may be shorter.
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
