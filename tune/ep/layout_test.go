package ep

import (
	"encoding/json"
	"testing"
)

func TestLayoutsInFiles(t *testing.T) {
	type file struct {
		Layout Layout `json:"layout,omitzero"`
	}
	for _, l := range Layouts() {
		b, err := json.Marshal(file{l})
		if err != nil || l == LayoutExpert && string(b) != "{}" {
			t.Errorf("%s is written as %s, %v", l, b, err)
		}
		var back file
		if err := json.Unmarshal(b, &back); err != nil || back.Layout != l {
			t.Errorf("%s came back as %q, %v", b, back.Layout, err)
		}
		if named := json.Unmarshal([]byte(`{"layout":"`+l.String()+`"}`), &back); named != nil || back.Layout != l {
			t.Errorf("%s by its name: %q, %v", l, back.Layout, named)
		}
	}
	if err := json.Unmarshal([]byte(`{"layout":"ranks"}`), &file{}); err == nil {
		t.Error("an unknown layout was read")
	}
}
