package engines

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

const oneSided = "flashinfer"

func writeFlashInfer(in Input) (Output, error) {
	all, leftOut, err := measuredPoints(in, oneSided)
	if err != nil {
		return Output{}, err
	}
	best, err := choose(all, in.Run.Run.Band, func(ep.Config, ep.Config) bool { return true })
	if err != nil {
		return Output{}, err
	}
	return Output{fmt.Appendf(nil, "export TLLM_MOE_A2A_DISPATCH_BLOCK_SIZE=%d\nexport TLLM_MOE_A2A_COMBINE_BLOCK_SIZE=%d\n",
		best.dispatch.Int("threads"), best.combine.Int("threads")), append(best.losses(all), leftOut...)}, nil
}
