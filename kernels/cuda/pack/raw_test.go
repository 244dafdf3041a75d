package pack

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// TestRowsOfCastTokens: rows measured with tokens that the caller cast to FP8 answer only calls with such tokens (Raw).
func TestRowsOfCastTokens(t *testing.T) {
	const cast = "dispatch_masked:count=sender,input=fp8,mode=fused,part=512,pdl=0,recv_sms=0,send=512,sms=64,threads=512,unit=512,wait_sms=0"
	const both = "dispatch_masked+combine_masked:combine.algo=direct,combine.mode=fused,combine.pdl=0,combine.recv_sms=0,combine.sms=132,combine.threads=512,combine.unit=512,combine.wait_sms=0," +
		"dispatch.input=fp8,dispatch.mode=fused,dispatch.pdl=0,dispatch.recv_sms=0,dispatch.sms=64,dispatch.threads=512,dispatch.unit=512,dispatch.wait_sms=0"
	rows := []table.Row{row(ep.Dispatch, 1, 128, cast, 4), row(ep.Pair, 1, 128, both, 8)}
	for raw, want := range map[bool]string{true: cast, false: "dispatch_masked:count=sender,input=bf16"} {
		p := buildFP8(t, ep.LayoutMasked, raw, rows)
		for _, purpose := range []ep.Op{ep.Dispatch, ep.Combine, ep.Pair} {
			a := p.Answers(ep.FP8, false, purpose, ep.Even)[0]
			if !strings.HasPrefix(a.Dispatch, want) || !strings.HasPrefix(a.Combine, "combine_masked:") {
				t.Errorf("raw tokens %v, purpose %s: dispatch %s, combine %s: %s", raw, purpose, a.Dispatch, a.Combine, a.Text)
			}
		}
	}
}

// TestRowsOfOtherTokens: rows measured with BF16 tokens also answer calls with tokens that the caller cast to FP8
// (Raw). The config then has input=fp8.
func TestRowsOfOtherTokens(t *testing.T) {
	const ids = "dispatch_masked_ids:part=512,pdl=0,send=512,sms=132,threads=512"
	of := row(ep.Dispatch, 1, 128, ids, 4)
	of.Key.Layout, of.Key.Dispatch = ep.LayoutMasked, ep.FP8
	for raw, want := range map[bool]string{false: "dispatch_masked:count=receiver,input=bf16", true: "dispatch_masked:count=receiver,input=fp8"} {
		p := build(t, func(r *Request) {
			r.Problem.Layout, r.DTypes, r.Raw = ep.LayoutMasked, []ep.DType{ep.FP8}, raw
		}, of)
		if a := p.Answers(ep.FP8, false, ep.Dispatch, ep.Even)[0]; !strings.HasPrefix(a.Dispatch, want) {
			t.Errorf("raw tokens %v: dispatch %s: %s", raw, a.Dispatch, a.Text)
		}
	}
}

// TestCombinesTakeDispatchesOfTheCallersTokens: a row with only a combine gets a dispatch that takes the callers'
// tokens.
func TestCombinesTakeDispatchesOfTheCallersTokens(t *testing.T) {
	const ids = "dispatch_masked_ids:part=512,pdl=0,send=512,sms=132,threads=512"
	const cast = "dispatch_masked:count=sender,input=fp8,mode=fused,part=512,pdl=0,recv_sms=0,send=512,sms=64,threads=512,unit=512,wait_sms=0"
	const combine = "combine_masked:algo=direct,mode=fused,pdl=0,recv_sms=0,sms=132,threads=1024,unit=512,wait_sms=0"
	for _, c := range []struct {
		raw       bool
		row, want string
	}{{true, ids, "input=fp8"}, {false, cast, "input=bf16"}} {
		rows := []table.Row{row(ep.Dispatch, 1, 128, c.row, 4), row(ep.Combine, 1, 128, combine, 4)}
		p := buildFP8(t, ep.LayoutMasked, c.raw, rows)
		for _, purpose := range []ep.Op{ep.Dispatch, ep.Combine, ep.Pair} {
			for _, a := range p.Answers(ep.FP8, false, purpose, ep.Even) {
				if !strings.Contains(a.Dispatch, c.want) {
					t.Errorf("raw tokens %v, purpose %s, %d to %d tokens: the dispatch is %s", c.raw, purpose, a.Lo, a.Hi, a.Dispatch)
				}
			}
		}
	}
}

func TestElsewhereTakesTheCallersTokens(t *testing.T) {
	const home = "dispatch_rank_home:input=bf16,pdl=0,sms=64,threads=512,unit=512,wait_sms=0"
	const cast = "dispatch_rank:input=fp8,pdl=0,sms=64,threads=512,unit=512,wait_sms=0"
	p := buildFP8(t, ep.LayoutRank, false, []table.Row{row(ep.Dispatch, 129, 4096, home, 4), row(ep.Dispatch, 1, 128, cast, 4)})
	for _, a := range p.Answers(ep.FP8, false, ep.Dispatch, ep.Even) {
		if strings.Contains(a.Dispatch+a.Elsewhere, "input=fp8") {
			t.Errorf("%d to %d tokens: dispatch %s, for outputs elsewhere %s", a.Lo, a.Hi, a.Dispatch, a.Elsewhere)
		}
	}
}

func TestForcedConfigsTakeTheCallersTokens(t *testing.T) {
	only := forced("dispatch_masked:count=sender,input=fp8,mode=fused,part=512,pdl=0,recv_sms=0,send=512,sms=64,threads=512,unit=512,wait_sms=0",
		"combine_masked:algo=direct,mode=fused,pdl=0,recv_sms=0,sms=132,threads=1024,unit=512,wait_sms=0")
	for raw, says := range map[bool]string{true: "", false: "input: dispatch_masked:count=sender,input=fp8"} {
		r := Request{Problem: shape, DTypes: []ep.DType{ep.FP8}, Machine: machine, Raw: raw, Only: only}
		r.Problem.Layout = ep.LayoutMasked
		if _, err := Build(r, compile); (err == nil) != raw || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("raw tokens %v: error %v", raw, err)
		}
	}
}

func buildFP8(t *testing.T, l ep.Layout, raw bool, rows []table.Row) *Pack {
	for i := range rows {
		rows[i].Key.Layout, rows[i].Key.Dispatch = l, ep.FP8
	}
	return build(t, func(r *Request) { r.Problem.Layout, r.DTypes, r.Raw = l, []ep.DType{ep.FP8}, raw }, rows...)
}
