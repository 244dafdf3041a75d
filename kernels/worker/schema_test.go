package worker

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

const schemaFile = "../../docs/schema/worker.v2.json"

// messages lists every message once, for the published schema.
type messages struct {
	Hello        Hello          `json:"hello"`
	Welcome      Welcome        `json:"welcome"`
	Open         OpenParams     `json:"open"`
	Session      SessionID      `json:"session"`
	Prepare      Candidate      `json:"prepare"`
	Ahead        AheadParams    `json:"ahead"`
	Run          RunParams      `json:"run"`
	RunReply     kernels.Rounds `json:"run_reply"`
	Verify       VerifyParams   `json:"verify"`
	VerifyReply  VerifyReply    `json:"verify_reply"`
	EmptyReply   EmptyReply     `json:"empty_reply"`
	Heartbeat    Beat           `json:"heartbeat"`
	FailureError failureData    `json:"failure_data"`
	Greeting     Greeting       `json:"greeting"`
	Admission    Admission      `json:"admission"`
	Failed       Trouble        `json:"failed"`
}

func workerSchema(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			switch t {
			case reflect.TypeFor[ep.Value]():
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
					{Type: "integer"}, {Type: "string", Pattern: `^[a-z0-9_.+-]{1,64}$`},
				}}
			case reflect.TypeFor[ep.Precision]():
				return &jsonschema.Schema{Type: "string", Enum: []any{"full", "reduced"}}
			case reflect.TypeFor[ep.Objective]():
				return &jsonschema.Schema{Type: "string", Enum: []any{"alone", "beside"}}
			case reflect.TypeFor[ep.Layout]():
				s := &jsonschema.Schema{Type: "string"}
				for _, l := range ep.Layouts() {
					s.Enum = append(s.Enum, l.String())
				}
				return s
			}
			return nil
		},
	}
	s := r.Reflect(&messages{})
	s.Title = "epbench worker protocol, version 2: params and results by message"
	s.Required = nil
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestSchemaIsPublished(t *testing.T) {
	want := workerSchema(t)
	if os.Getenv("EPBENCH_UPDATE") == "1" {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the types; run make golden and review", schemaFile)
	}
}
