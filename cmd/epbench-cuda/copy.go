//go:build cuda

package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/drive"
)

// newCopy returns the command that times a plain copy of rows: no call that stores as many bytes can be faster.
func newCopy(f *flags) *cobra.Command {
	p, sms, rounds := declare.CopyProbe{}, []int{8, 16, 24, 132}, 20
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Time a plain copy of rows on some SMs, within a GPU and to the next GPU",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rounds < 1 {
				return fmt.Errorf("rounds: %d, use 1 or more", rounds)
			}
			return withBackend(f, func(b *drive.Backend) error { return printCopies(cmd, b, p, sms, rounds) })
		},
	}
	o := cmd.Flags()
	o.IntSliceVar(&sms, "sms", sms, "numbers of SMs to try, one block on each SM")
	o.IntVar(&p.Home, "home", 8*4096, "rows copied within each GPU")
	o.IntVar(&p.Away, "away", 4096, "rows copied to the next GPU")
	o.IntVar(&p.RowBytes, "row-bytes", 7168, "bytes of a row")
	o.IntVar(&rounds, "rounds", rounds, "number of rounds of each copy")
	return cmd
}

func printCopies(cmd *cobra.Command, b *drive.Backend, p declare.CopyProbe, sms []int, rounds int) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%d rows within each GPU and %d rows to the next GPU, %d bytes a row; timed with --clock chain\n", p.Home, p.Away, p.RowBytes)
	for _, p.SMs = range sms {
		times, err := b.Copy(cmd.Context(), p, rounds)
		if err != nil {
			return err
		}
		printCopy(w, p, times)
	}
	return nil
}

func printCopy(w io.Writer, p declare.CopyProbe, times []float64) {
	slices.Sort(times)
	at := func(share float64) float64 { return times[int(share*float64(len(times)-1))] }
	bytes := float64(p.Home+p.Away) * float64(p.RowBytes)
	fmt.Fprintf(w, "%4d SMs: %8.1f us (p10 %.1f, p90 %.1f), %.0f GB/s stored\n",
		p.SMs, at(0.5)*1e6, at(0.1)*1e6, at(0.9)*1e6, bytes/at(0.5)/1e9)
}
