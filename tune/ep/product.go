package ep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The kinds of Product.
const (
	Gemm = "gemm" // matrix products, one for each local expert
	Copy = "copy" // copy of a buffer, without matrix units
	Step = "step" // Gemm's products and attention's projections
)

// Product is the work that runs on every rank at the same time as a call.
type Product struct {
	Kind    string // Gemm, Copy or Step
	M, N, K int    // elements; zero for Copy
	DType   DType  // of both factors, BF16 or FP8
	Groups  int
}

const (
	MaxProduct = 1 << 20
	MaxGroups  = 4096
)

// ParseProduct reads gemm[:M,N,K[,DTYPE[,GROUPS]]], step with the same sizes, and copy. Problem.WithProduct sets
// missing sizes.
func ParseProduct(s string) (Product, error) {
	kind, sizes, sized := strings.Cut(s, ":")
	p := Product{Kind: kind}
	if !slices.Contains([]string{Gemm, Copy, Step}, kind) || kind == Copy && sized {
		return p, fmt.Errorf("beside: %.60q is none of gemm[:M,N,K[,DTYPE[,GROUPS]]], step and copy", s)
	}
	if !sized {
		return p, nil
	}
	words := strings.Split(sizes, ",")
	if len(words) < 3 || len(words) > 5 {
		return p, fmt.Errorf("beside: %.60q needs sizes M,N,K[,DTYPE[,GROUPS]] after the colon", s)
	}
	p.DType, p.Groups = BF16, 1
	if len(words) > 3 {
		p.DType = DType(words[3])
	}
	numbers := []*int{&p.M, &p.N, &p.K}
	if len(words) > 4 {
		numbers, words = append(numbers, &p.Groups), slices.Delete(words, 3, 4)
	} else {
		words = words[:3]
	}
	for i, field := range numbers {
		n, err := strconv.Atoi(words[i])
		if err != nil {
			return p, fmt.Errorf("beside: %.20q is not an integer", words[i])
		}
		*field = n
	}
	return p, p.check()
}

func (p Product) check() error {
	if p.Kind == Copy {
		return nil
	}
	step := 8 // a 16-byte vector of BF16
	if p.DType == FP8 {
		step = 16
	} else if p.DType != BF16 {
		return fmt.Errorf("beside: dtype is %.20q, use bf16 or fp8", p.DType)
	}
	for _, f := range []struct {
		name         string
		v, max, step int
	}{{"M", p.M, MaxProduct, 1}, {"N", p.N, MaxProduct, step}, {"K", p.K, MaxProduct, step}, {"groups", p.Groups, MaxGroups, 1}} {
		if f.v < 1 || f.v > f.max {
			return fmt.Errorf("beside: %s: %d is outside 1 to %d", f.name, f.v, f.max)
		}
		if f.v%f.step != 0 {
			return fmt.Errorf("beside: %s: %d is not a multiple of %d, one 16-byte vector of %s", f.name, f.v, f.step, p.DType)
		}
	}
	return nil
}

// String returns the full spelling, which ParseProduct reads.
func (p Product) String() string {
	if p.M == 0 {
		return p.Kind
	}
	return fmt.Sprintf("%s:%d,%d,%d,%s,%d", p.Kind, p.M, p.N, p.K, p.DType, p.Groups)
}

// WithProduct returns the problem with an objective and a product. A product without sizes gets those of the gate and
// up projections of the local experts: [M, hidden] x [hidden, 2 x intermediate]. M is the mean number of rows of an
// expert.
func (p Problem) WithProduct(q Product, intermediate int, o Objective) Problem {
	if q.Kind != Copy && q.M == 0 {
		q.DType = BF16
		if p.Dispatch != BF16 {
			q.DType = FP8
		}
		q.M, q.N, q.K, q.Groups = p.expertRows(q.DType), 2*intermediate, p.Hidden, p.LocalExperts()
	}
	p.Beside, p.Objective = q.String(), o
	return p
}

// expertRows returns the mean number of rows of an expert. For FP8, libraries pad this number to a multiple of 16.
func (p Problem) expertRows(d DType) int {
	rows := max(1, int(math.Ceil(float64(p.Ranks*p.Tokens*p.TopK)/float64(p.Experts))))
	if d == FP8 {
		return (rows + 15) / 16 * 16
	}
	return rows
}

func (p Problem) ownRows(q Product) bool {
	return q.M > 0 && q.K == p.Hidden && q.Groups == p.LocalExperts() && q.M == p.expertRows(q.DType)
}

// AtTokens returns the problem at another token count, with buffers for `room` tokens. If WithProduct computed the
// product's M, AtTokens computes it again.
func (p Problem) AtTokens(tokens, room int) Problem {
	q, ok := p.Product()
	follows := ok && p.ownRows(q)
	p.Tokens, p.MaxTokens = tokens, room
	if follows {
		q.M = p.expertRows(q.DType)
		p.Beside = q.String()
	}
	return p
}

// Shape returns the problem at 0 tokens.
func (p Problem) Shape() Problem { return p.AtTokens(0, 0) }

// Product returns the product that p.Beside names. ok is false if there is none.
func (p Problem) Product() (q Product, ok bool) {
	if p.Beside == "" {
		return q, false
	}
	q, err := ParseProduct(p.Beside)
	return q, err == nil
}

func (p Problem) validateBeside() error {
	if p.Objective != Alone && p.Objective != BesideProduct {
		return fmt.Errorf("objective: %d is neither ep.Alone nor ep.BesideProduct", int(p.Objective))
	}
	if p.Beside == "" {
		return nil
	}
	q, err := ParseProduct(p.Beside)
	switch {
	case err != nil:
		return err
	case p.Op == Activation || p.Op == Layer:
		return fmt.Errorf("beside: op %s is timed alone; use op dispatch, combine or pair", p.Op)
	case q.Kind != Copy && q.M == 0:
		return fmt.Errorf("beside: %q has no sizes; spell them as gemm:M,N,K,DTYPE,GROUPS", p.Beside)
	case q.String() != p.Beside:
		return fmt.Errorf("beside: %q is not spelled in full, write %q", p.Beside, q)
	case p.Mode == Cold:
		return fmt.Errorf("mode: cold empties the L2 cache before a call, but a product fills it; use graph or eager")
	case q.Kind == Step && p.Op != Pair:
		return fmt.Errorf("beside: a step needs op pair; use op pair, or gemm with op %s", p.Op)
	}
	return nil
}
