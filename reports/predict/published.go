package predict

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Published is a figure that a library's authors published for several hosts.
type Published struct {
	Library   string          `yaml:"library"`
	Op        ep.Op           `yaml:"op"`
	Ranks     int             `yaml:"ranks"`
	PerHost   int             `yaml:"per_host"`
	Hidden    int             `yaml:"hidden"`
	Experts   int             `yaml:"experts"`
	TopK      int             `yaml:"topk"`
	Tokens    int             `yaml:"tokens"` // of each rank
	DType     ep.DType        `yaml:"dtype"`
	Precision string          `yaml:"precision"` // reduced: a combine sends partial sums
	Routing   string          `yaml:"routing"`
	Transport model.Transport `yaml:"transport"`
	Host      string          `yaml:"host"`                   // link inside a host
	Network   string          `yaml:"network"`                // link between hosts
	Micros    float64         `yaml:"us"`                     // time; a row has a time or one of the bandwidths
	OfHosts   float64         `yaml:"gb_per_s_of_hosts"`      // bandwidth: a token counts once per host
	OfChosen  float64         `yaml:"gb_per_s_of_selections"` // bandwidth: a token counts once per selected expert
	Source    string          `yaml:"source"`
	Date      string          `yaml:"date"`
}

//go:embed published.yaml
var publishedFile []byte

// PublishedRows returns the built-in list of published figures.
func PublishedRows() ([]Published, error) { return readPublished(publishedFile) }

func readPublished(b []byte) ([]Published, error) {
	var f struct {
		Schema int         `yaml:"schema"`
		Rows   []Published `yaml:"rows"`
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	for i, r := range f.Rows {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("rows[%d].%w", i, err)
		}
	}
	return f.Rows, nil
}

func (r Published) check() error {
	given := 0
	for _, v := range []float64{r.Micros, r.OfHosts, r.OfChosen} {
		if v < 0 {
			return fmt.Errorf("us, gb_per_s: %v is negative", v)
		}
		if v > 0 {
			given++
		}
	}
	switch {
	case given != 1:
		return errors.New("us, gb_per_s: give exactly one figure")
	case r.Source == "" || r.Date == "":
		return errors.New("source, date: a published figure needs both")
	case r.Transport.Index() < 0:
		return fmt.Errorf("transport: %.20q, use select, rank or host", r.Transport)
	case r.Ranks <= r.PerHost:
		return fmt.Errorf("ranks: %d ranks fit into one host of %d GPUs; figures of several hosts are needed", r.Ranks, r.PerHost)
	}
	return r.shape().Validate()
}

func (r Published) shape() model.Shape {
	return model.Shape{Ranks: r.Ranks, PerHost: r.PerHost, Experts: r.Experts, TopK: r.TopK, Tokens: r.Tokens}
}

func (r Published) problem() (ep.Problem, error) {
	p := ep.Problem{Op: r.Op, Hidden: r.Hidden, TopK: r.TopK, Dispatch: r.DType}
	var err error
	p.Precision, err = ep.ParsePrecision(r.Precision)
	return p, err
}

func (r Published) seconds(n []model.Traffic) float64 {
	if r.Micros > 0 {
		return r.Micros * 1e-6
	}
	format := r.DType
	if r.Op == ep.Combine {
		format = ep.BF16
	}
	token := float64(r.Tokens) * float64(dtype.Of(format, r.Hidden).TokenBytes())
	if r.OfHosts > 0 {
		return token * n[model.PerHost.Index()].Places / (r.OfHosts * 1e9)
	}
	return token * n[model.Select.Index()].Places / (r.OfChosen * 1e9)
}

// ComparedFigure is a published figure with its prediction.
type ComparedFigure struct {
	Published
	Seconds   float64 // published
	Predicted model.Prediction
}

// Error returns the relative error of the prediction.
func (b ComparedFigure) Error() float64 { return b.Predicted.Seconds/b.Seconds - 1 }

// Impossible reports whether the published time is clearly shorter than the predicted time of the network transfer.
func (b ComparedFigure) Impossible() bool { return b.Seconds < 0.95*b.Predicted.Network }

// Compare predicts the time of every published row. `missing` lists the rows for which the model file has no
// coefficients.
func Compare(f *model.File, rows []Published) (out []ComparedFigure, missing []string, err error) {
	counts := map[string][]model.Traffic{}
	for _, r := range rows {
		p, err := r.problem()
		if err != nil {
			return nil, nil, err
		}
		if _, err := f.Family(Tuned, p); err != nil {
			missing = append(missing, fmt.Sprintf("%s %s EP%d: %v", r.Library, r.Op, r.Ranks, err))
			continue
		}
		key := fmt.Sprint(r.shape(), r.Routing)
		if counts[key] == nil {
			d, err := workloads.Parse(r.Routing)
			if err != nil {
				return nil, nil, err
			}
			if counts[key], err = model.Count(r.shape(), d, 1); err != nil {
				return nil, nil, fmt.Errorf("%s EP%d: %w", r.Library, r.Ranks, err)
			}
		}
		b, err := compareFigure(f, r, counts[key])
		if err != nil {
			return nil, nil, fmt.Errorf("%s EP%d: %w", r.Library, r.Ranks, err)
		}
		out = append(out, b)
	}
	return out, missing, nil
}

func compareFigure(f *model.File, r Published, n []model.Traffic) (ComparedFigure, error) {
	p, err := r.problem()
	if err != nil {
		return ComparedFigure{}, err
	}
	family, err := f.Family(Tuned, p)
	if err != nil {
		return ComparedFigure{}, err
	}
	host, err := f.Link(r.Host, model.Host)
	if err != nil {
		return ComparedFigure{}, err
	}
	net, err := f.Link(r.Network, model.Network)
	if err != nil {
		return ComparedFigure{}, err
	}
	call := model.NewCall(r.Op, p, r.shape(), r.Transport, n[r.Transport.Index()], f.SMs)
	q := model.Predict(family.Costs, call, host, net)
	q.Transport = r.Transport
	return ComparedFigure{Published: r, Seconds: r.seconds(n), Predicted: q}, nil
}
