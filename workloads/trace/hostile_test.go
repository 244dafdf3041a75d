package trace

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/bounded"
)

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, text, want string }{
		{"empty.npy", "", "magic word is missing"},
		{"short.npy", "\x93NUMPY\x01\x00\xff", "magic word is missing"},
		{"version.npy", "\x93NUMPY\x09\x00\x01\x00", "version 9 is unknown"},
		{"long.npy", "\x93NUMPY\x02\x00\xff\xff\xff\xff", "the bound is 10000"},
		{"cut.npy", "\x93NUMPY\x01\x00\xff\x00{", "header: truncated"},
		{"nodict.npy", "\x93NUMPY\x01\x00\x04\x00spam", "is not a dict"},
		{"struct.npy", npy("[('a', '<i4')]", "2, 2"), "not a plain numeric type"},
		{"object.npy", npy("|O", "2, 2"), "not a plain numeric type"},
		{"complex.npy", npy("<c8", "2, 2"), "type c8"},
		{"bool.npy", npy("|b1", "2, 2"), "type b1"},
		{"float.npy", npy("<f4", "1, 2") + strings.Repeat("\x00", 8), "ids are of type f4; save them as integers"},
		{"scalar.npy", npy("<i4", ""), "one to four axes"},
		{"fived.npy", npy("<i4", "1, 1, 1, 1, 1"), "one to four axes"},
		{"fourd.npy", npy("<i4", "1, 1, 1, 1") + "\x00\x00\x00\x00", "4 axes; give --axes with a name for each"},
		{"threed.npy", npy("<i4", "1, 1, 1") + "\x00\x00\x00\x00", "nothing says what the axes are; give --axes layers,tokens,topk or tokens,layers,topk"},
		{"huge.npy", npy("<i4", "99999999999999, 8"), "is too large"},
		{"overflow.npy", npy("<i4", "99999999999999999999, 8"), "is not a size"},
		{"promise.npy", npy("<i4", "1000000, 8"), "truncated: "},
		{"topk.npy", npy("<i4", "0, 0"), "top-k is outside 1 to 32"},
		{"range.npy", npy("<i4", "1, 2") + "\x01\x00\x00\x00\x00\x00\x01\x00", "row 0: expert 65536 is outside 0 to 65535"},
		{"minus.npy", npy("<i4", "1, 1") + "\xfe\xff\xff\xff", "expert -2 is outside"},
		{"wide.npy", npy("<i8", "1, 1") + "\x00\x00\x00\x00\x01\x00\x00\x00", "an expert id beyond 2147483647"},
		{"masked.npy", npy("<i4", "2, 1") + strings.Repeat("\xff", 8), "all 2 selections are masked: nothing was recorded"},
		{"most.npy", npy("<u8", "1, 1") + strings.Repeat("\xff", 8), "an expert id beyond 2147483647"},
		{"logits3.npy", npy("<f4", "2, 1, 8") + strings.Repeat("\x00\x00\x80\xbf", 16), "if these are router logits, --kind logits --topk K computes the ids"},
		{"tokens.npy", npy("<f4", "2, 64") + strings.Repeat("\x00\x00\x80\xbf", 128), "--layer N, where N is 0 to 1; if these are router logits, --kind logits --topk K computes the ids"},
		{"logits.npy", npy("<f4", "1, 64") + strings.Repeat("\x00\x00\x80\xbf", 64), "if these are router logits, --kind logits --topk K computes the ids"},
		{"a.safetensors", "", "not a .safetensors file: no header"},
		{"long.safetensors", "\xff\xff\xff\xff\x00\x00\x00\x00", "header of 4294967295 bytes in a file of 8"},
		{"type.safetensors", safetensors(`{"0_0": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}`, "\x01\x00"), "type \"BOOL\" cannot be read"},
		{"cut.safetensors", safetensors(`{"0_0": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}}`, "\x01\x00"), "truncated: shape [2] of i4 does not fit"},
		{"a.parquet", "", ".parquet files are not read; save the array as .npy"},
		{"twice.npy", npy("|u1", "2, 2") + "\x01\x02\x03\x03", "row 1: expert 3 is there twice; if these are counts"},
		{"negative.npy", npy("<i4", "1") + "\xff\xff\xff\xff", "expert 0: -1 is not a count"},
		{"nozip.npz", "PK", "zip: not a valid zip file"},
		{"old.pt", "\x80\x02", "save with torch.save of PyTorch 1.6 or later"},
		{"ids.csv", "0,1\n2,x\n", "line 2: \"x\" is not an expert id"},
		{"ragged.csv", "0,1\n2\n", "line 2: 1 fields, the first line has 2"},
		{"quote.csv", "0,1\n\"2,3\n", "quote.csv:"},
		{"fields.csv", "expert_id,count\n1,2,3\n", "line 2: 3 fields, the first line has 2"},
		{"head.csv", "expert_id,count\n", "no rows"},
		{"weights.csv", "e0,w0\n1,-1\n", "\"-1\" is not a weight"},
		{"many.csv", strings.Repeat("1,", 40) + "1\n", "41 ids and 0 weights"},
		{"uneven.csv", "e0,e1,w0\n1,2,0.5\n", "2 ids and 1 weights"},
		{"line.csv", strings.Repeat("1", maxLine+9), "line 1: longer than 65536 bytes"},
		{"counts.csv", "expert_id,count\n1,-4\n", "\"-4\" is not a count"},
		{"expert.csv", "expert_id,count\n65536,1\n", "outside 0 to 65535"},
		{"nohead.csv", "layer,count\n1,1\n", "counts need a header"},
		{"none.csv", "e0,e1\n", "no rows"},
		{"none.jsonl", "\n", "no rows"},
		{"bad.jsonl", "{\"topk_ids\": [1, 2]}\n{\"topk_ids\": [1}\n", "line 2: invalid character"},
		{"keys.jsonl", "{\"ids\": [1]}\n", "no \"topk_ids\""},
		{"uneven.jsonl", "[1,2]\n[1]\n", "line 2: 1 ids and 0 weights, the first token has 2 ids"},
		{"line.jsonl", strings.Repeat("[", maxLine+9), "longer than"},
		{"twice.jsonl", "[4,4]\n", "row 0: expert 4 is there twice"},
		{"empty.json", "", "empty.json:"},
		{"word.json", "\"x\"", "write counts in arrays of one to three levels"},
		{"deep.json", "[[[[1]]]]", "write counts in arrays of one to three levels"},
		{"uneven.json", "[[1,2],[3]]", "arrays of 2 and of 1 elements"},
		{"mixed.json", "[1,[2]]", "mixed.json:"},
		{"null.json", "[1,null]", "null in the place of a number"},
		{"hollow.json", "[[],[]]", "top-k is outside 1 to 32"},
		{"nothing.json", "[[]]", "top-k is outside 1 to 32"},
		{"none.json", "[[[]], []]", "side by side"},
		{"float.json", "[1.5]", "is not a whole number"},
		{"name.json", "{\"x\": [1]}", "no array with a name that recorders give, such as topk_ids; there are: none"},
		{"after.json", "[1] [2]", "after top-level value"},
		{"big.json", "[1e300]", "is not a whole number"},
		{"what.bin", "", "extension \".bin\" is unknown"},
	} {
		_, err := scan(write(t, dir, c.name, c.text), noLayer)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400+len(dir) {
			t.Errorf("%s: error %v, want one line with %q", c.name, err, c.want)
		}
	}
	if _, err := scan(dir+".npy", noLayer); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing file: %v", err)
	}
	for f, o := range map[string]Options{"sglang_stat.pt": noLayer, "sglang_counts.json": {Layer: 3}, "ids_weights.npz": {Layer: -1, Array: "nope"}} {
		if _, err := scan(golden+f, o); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s with %+v: %v", f, o, err)
		}
	}
}

// TestHostilePickles reads pickles that would run code, nest for ever or state false sizes.
func TestHostilePickles(t *testing.T) {
	for name, p := range map[string]string{
		"empty":        "",
		"system":       "cos\nsystem\n(S'true'\ntR.",
		"no mark":      "\x80\x02u.",
		"pop nothing":  "\x80\x020.",
		"long string":  "\x80\x02X\xff\xff\xff\xffab.",
		"memo":         "\x80\x02h\x05.",
		"huge integer": "\x80\x02\x8a\xff.",
		"bad tensor":   "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
		"set on int":   "\x80\x02K\x01(K\x02K\x03u.",
	} {
		if v, err := unpickle([]byte(p), bounded.New(0)); err == nil && name != "set on int" {
			t.Errorf("%s: gave %v", name, v)
		}
	}
	deep := "\x80\x02]q\x00h\x00a." // a list that holds itself
	v, err := unpickle([]byte(deep), bounded.New(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := (&ptFile{left: 1000}).collect("", v, 0); err == nil {
		t.Error("a list that holds itself was walked")
	}
}

// FuzzOpen gives random bytes to every reader. An error must have one line.
func FuzzOpen(f *testing.F) {
	exts := []string{".npy", ".npz", ".pt", ".csv", ".jsonl", ".json", ".safetensors"}
	files, _ := filepath.Glob(golden + "*.*")
	for _, folders := range []string{"*/*.*", "*/*/*.*"} {
		more, _ := filepath.Glob(golden + folders)
		files = append(files, more...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for i, ext := range exts {
			if ext == filepath.Ext(file) {
				f.Add(byte(i), text)
			}
		}
	}
	f.Add(byte(3), []byte("expert_id,count\n0,1\n"))
	f.Add(byte(4), []byte("[1,2]\n{\"topk_ids\":[3,4],\"x\":1}"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, ext byte, text []byte) {
		path := write(t, dir, "f"+exts[int(ext)%len(exts)], string(text))
		for _, o := range []Options{noLayer, {Layer: 0}, {Layer: 1, Kind: Counts}, {Layer: 0, Kind: IDs, Axes: []Axis{Tokens, Layers, TopK}}} {
			s, err := scan(path, o)
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err)
			}
			if err == nil && len(s.Counts) > MaxExperts {
				t.Fatalf("%d experts", len(s.Counts))
			}
		}
	})
}

func safetensors(header, data string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + data
}
