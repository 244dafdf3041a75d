package worker

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
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
	Explain      ExplainParams  `json:"explain"`
	ExplainReply ExplainReply   `json:"explain_reply"`
	Heartbeat    Beat           `json:"heartbeat"`
	FailureError failureData    `json:"failure_data"`
	Greeting     Greeting       `json:"greeting"`
	Challenge    Challenge      `json:"challenge"`
	Proof        Proof          `json:"proof"`
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

// TestSchemaIsPublished compares the published schema with the message types.
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

// TestPagesNameEveryField checks that the two pages of the protocol name every field of the schema,
// because people need no other document to write a worker.
func TestPagesNameEveryField(t *testing.T) {
	var pages []byte
	for _, name := range []string{"worker-protocol.md", "worker-messages.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page...)
	}
	words := map[string]bool{}
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(pages), "") // commands
	for _, code := range regexp.MustCompile("`[^`]+`").FindAllString(text, -1) {
		for _, w := range regexp.MustCompile(`[a-z0-9_]+`).FindAllString(code, -1) {
			words[w] = true
		}
	}
	var schema map[string]any
	if err := json.Unmarshal(workerSchema(t), &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema, "properties") // the names of messages, which only the schema has
	n := 0
	eachProperty(schema, func(name string) {
		if n++; !words[name] {
			t.Errorf("docs/worker-protocol.md and docs/worker-messages.md do not name %s", name)
		}
	})
	if n < 50 {
		t.Errorf("%d properties: the schema was not read", n)
	}
}

// eachProperty calls do for every property of a JSON schema, at any depth.
func eachProperty(schema any, do func(name string)) {
	switch x := schema.(type) {
	case map[string]any:
		for key, v := range x {
			if props, ok := v.(map[string]any); ok && key == "properties" {
				for name := range props {
					do(name)
				}
			}
			eachProperty(v, do)
		}
	case []any:
		for _, v := range x {
			eachProperty(v, do)
		}
	}
}
