package ep

import (
	"reflect"
	"testing"
)

func readings(us ...float64) (rows [][]float64) {
	for _, v := range us {
		rows = append(rows, []float64{v * 1e-6})
	}
	return rows
}

func TestShareBase(t *testing.T) {
	fast := &BesideRounds{Product: readings(71, 71, 80), Both: readings(80, 80, 80)}
	slow := &BesideRounds{Product: readings(80, 80, 71), Both: readings(81, 81, 81)}
	late := &BesideRounds{Product: readings(60), Both: readings(90)}
	ShareBase([]*BesideRounds{fast, slow})
	if want := readings(71, 71, 71); !reflect.DeepEqual(fast.Alone(), want) || !reflect.DeepEqual(slow.Alone(), want) {
		t.Errorf("base %v and %v, want %v", fast.Base, slow.Base, want)
	}
	for k := range 3 {
		if a, b := fast.Cost()[k][0], slow.Cost()[k][0]; !(a < b) || !reflect.DeepEqual(slow.Product, readings(80, 80, 71)) {
			t.Errorf("round %d: costs %v and %v; want a larger cost for the second config", k, a, b)
		}
	}
	again, more, last := *fast, *slow, *fast
	ShareBase([]*BesideRounds{fast, slow, late, &again, &more, &last})
	if want := readings(71, 71, 71); !reflect.DeepEqual(slow.Base, want) || len(late.Base) != 1 {
		t.Errorf("with six configs: base %v and %v", slow.Base, late.Base)
	}
}

func TestDriftingClocksShareNothing(t *testing.T) {
	a := &BesideRounds{Product: readings(100, 104, 120, 131, 110), Both: readings(110, 114, 130, 141, 120)}
	b := &BesideRounds{Product: readings(101, 107, 125, 129, 104), Both: readings(111, 117, 135, 139, 114)}
	ShareBase([]*BesideRounds{a, b})
	if a.Base != nil || b.Base != nil || a.Cost()[3][0] > 10.001e-6 {
		t.Errorf("base %v and %v, cost %v", a.Base, b.Base, a.Cost())
	}
}

func TestAppendKeepsBase(t *testing.T) {
	a, b := &BesideRounds{Product: readings(71), Both: readings(80)}, &BesideRounds{Product: readings(80), Both: readings(80)}
	ShareBase([]*BesideRounds{a, b})
	var sum BesideRounds
	sum.Append(&BesideRounds{Product: readings(75), Both: readings(80)})
	sum.Append(b)
	if want := readings(75, 71); !reflect.DeepEqual(sum.Base, want) || len(sum.Product) != 2 {
		t.Errorf("base %v, want %v", sum.Base, want)
	}
}
