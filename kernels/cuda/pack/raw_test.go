package pack

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// TestRowsOfCastTokens: a row that was measured with tokens that the caller cast serves
// such callers. Those with BF16 tokens get the default, which casts them.
func TestRowsOfCastTokens(t *testing.T) {
	const cast = "dispatch_masked:input=fp8,pdl=0,sms=64,threads=512,unit=512,wait_sms=0"
	const both = "dispatch_masked+combine_masked:combine.algo=direct,combine.pdl=0,combine.sms=132,combine.threads=512,combine.unit=512,combine.wait_sms=0," +
		"dispatch.input=fp8,dispatch.pdl=0,dispatch.sms=64,dispatch.threads=512,dispatch.unit=512,dispatch.wait_sms=0"
	rows := []table.Row{row(ep.Dispatch, 1, 128, cast, 4), row(ep.Pair, 1, 128, both, 8)}
	for i := range rows {
		rows[i].Key.Layout, rows[i].Key.Dispatch = ep.LayoutMasked, ep.FP8
	}
	for raw, want := range map[bool]string{true: cast, false: "dispatch_masked:input=bf16"} {
		p := build(t, func(r *Request) {
			r.Problem.Layout, r.DTypes, r.Raw = ep.LayoutMasked, []ep.DType{ep.FP8}, raw
		}, rows...)
		for _, purpose := range []ep.Op{ep.Dispatch, ep.Pair} {
			a := p.Answers(ep.FP8, false, purpose, ep.Even)[0]
			if !strings.HasPrefix(a.Dispatch, want) || !strings.HasPrefix(a.Combine, "combine_masked:") {
				t.Errorf("tokens cast by the caller %v, %s: %s, %s: %s", raw, purpose, a.Dispatch, a.Combine, a.Text)
			}
		}
	}
}

// TestRowsOfOtherTokens: a row whose kernel casts tokens itself serves no caller who has
// cast them.
func TestRowsOfOtherTokens(t *testing.T) {
	const ids = "dispatch_masked_ids:part=512,pdl=0,send=512,sms=132,threads=512"
	of := row(ep.Dispatch, 1, 128, ids, 4)
	of.Key.Layout, of.Key.Dispatch = ep.LayoutMasked, ep.FP8
	for raw, want := range map[bool]string{false: ids, true: "dispatch_masked:input=fp8"} {
		p := build(t, func(r *Request) {
			r.Problem.Layout, r.DTypes, r.Raw = ep.LayoutMasked, []ep.DType{ep.FP8}, raw
		}, of)
		if a := p.Answers(ep.FP8, false, ep.Dispatch, ep.Even)[0]; !strings.HasPrefix(a.Dispatch, want) {
			t.Errorf("tokens cast by the caller %v: %s: %s", raw, a.Dispatch, a.Text)
		}
	}
}
