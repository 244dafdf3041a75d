package predict

import (
	"fmt"

	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Question asks for the predicted time of one problem.
type Question struct {
	Model   string // a preset, such as deepseek-v3
	Problem ep.Problem
	Shape   model.Shape
	Routing workloads.Distribution
	Seed    uint64
}

// Point is the answer to a Question.
type Point struct {
	Question
	model.Prediction
	Drawn int // tokens drawn on each rank, at most Shape.Tokens
}

// Plan predicts the time of every question.
func Plan(m *model.Model, asks []Question) ([]Point, error) {
	type drawn struct {
		shape   model.Shape
		routing string
		seed    uint64
	}
	counts := map[drawn][]model.Traffic{}
	var out []Point
	for _, a := range asks {
		key := drawn{a.Shape, a.Routing.Spec(), a.Seed}
		n, ok := counts[key]
		if !ok {
			var err error
			if n, err = model.Count(a.Shape, a.Routing, a.Seed); err != nil {
				return nil, fmt.Errorf("%s on %d ranks: %w", a.Model, a.Shape.Ranks, err)
			}
			counts[key] = n
		}
		q, err := m.Predict(a.Problem, a.Shape, n)
		if err != nil {
			return nil, err
		}
		out = append(out, Point{a, q, n[0].Drawn})
	}
	return out, nil
}
