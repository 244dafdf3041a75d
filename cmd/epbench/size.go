package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var sizeUnits = map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// parseSize returns the number of bytes of a size such as 44MiB, 12GiB, 1.5GB or 4096.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "BKMGi")
	unit, ok := sizeUnits[text[len(number):]]
	v, err := strconv.ParseFloat(number, 64)
	if bytes := math.Round(v * unit); ok && err == nil && bytes > 0 && bytes <= 1<<50 {
		return int64(bytes), nil
	}
	return 0, fmt.Errorf("%.20q is not a size above 0, such as 44MiB, 12GiB or 1.5GB", text)
}
