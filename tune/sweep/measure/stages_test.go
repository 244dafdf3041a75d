package measure

import (
	"reflect"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestStagesOfAConfig(t *testing.T) {
	r := &Runner{}
	a, b := ep.Config{Kernel: "a"}, ep.Config{Kernel: "b"}
	want := []ep.StageTime{{Name: "dispatch", Seconds: 1e-5}, {Name: "combine", Seconds: 2e-5}}
	if got := r.stagesOf(a, nil); got != nil {
		t.Errorf("before the report: %v", got)
	}
	r.stagesOf(a, want)
	if got := r.stagesOf(a, nil); !reflect.DeepEqual(got, want) {
		t.Errorf("after the report: %v, want %v", got, want)
	}
	if got := r.stagesOf(b, nil); got != nil {
		t.Errorf("another config: %v", got)
	}
}
