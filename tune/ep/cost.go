package ep

import "cmp"

// Cost is what a config takes from the model that runs beside it. It decides
// between configs whose times are within the band: the cheaper one is chosen.
// The halves of a pair run one after the other, so the cost of a pair is the
// larger of the two, field by field, and not their sum.
type Cost struct {
	SMs     int `json:"sms"`     // SMs of one rank; the CPU backend counts its workers here
	Threads int `json:"threads"` // threads of a block
	Bytes   int `json:"bytes"`   // bytes of the buffers that the config chooses
}

// Compare orders costs: fewest SMs first, then fewest threads, then fewest bytes.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.SMs, d.SMs), cmp.Compare(c.Threads, d.Threads), cmp.Compare(c.Bytes, d.Bytes))
}
