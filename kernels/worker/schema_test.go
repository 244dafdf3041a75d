package worker

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/testfile"
)

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
	none := func(reflect.Type) *jsonschema.Schema { return nil }
	s := testfile.Schema(t, "epbench worker protocol, version 2: params and results by message", &messages{}, "", none)
	s.Required = nil
	return testfile.Indented(t, s)
}

func TestSchemaIsPublished(t *testing.T) {
	testfile.Golden(t, "../../docs/schema/worker.v2.json", workerSchema(t))
}

// TestPagesNameEveryField: the pages name all fields of messages, so that one can write a worker by them alone.
func TestPagesNameEveryField(t *testing.T) {
	var pages []byte
	for _, name := range []string{"worker-protocol.md", "worker-messages.md"} {
		page := testfile.Read(t, "../../docs/"+name)
		pages = append(pages, page...)
	}
	words := map[string]bool{}
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(pages), "") // commands
	for _, code := range regexp.MustCompile("`[^`]+`").FindAllString(text, -1) {
		for _, w := range regexp.MustCompile(`[a-z0-9_]+`).FindAllString(code, -1) {
			words[w] = true
		}
	}
	schema := testfile.JSON[map[string]any](t, workerSchema(t))
	delete(schema, "properties") // names of messages
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
