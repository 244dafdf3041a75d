/* A libnvrtc that compiles device sources with g++. The environment variable EMUL_SRC is the folder of cuda_emul.h. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace {

struct Program {
  std::string source, log, image;
  std::map<std::string, std::string> headers;
};

std::string read(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}

void write(const std::string &path, const std::string &text) {
  for (size_t i = 1; (i = path.find('/', i)) != std::string::npos; i++) mkdir(path.substr(0, i).c_str(), 0755);
  std::ofstream(path, std::ios::binary) << text;
}

/* Returns a ptxas report with the same made-up numbers for every kernel. The kernels are the global functions of the
 * shared object `image`. */
std::string usage(const std::string &image) {
  const char *base = image.data();
  const Elf64_Ehdr *h = reinterpret_cast<const Elf64_Ehdr *>(base);
  const Elf64_Shdr *sections = reinterpret_cast<const Elf64_Shdr *>(base + h->e_shoff);
  std::string out;
  for (const Elf64_Shdr *s = sections; s < sections + h->e_shnum; s++) {
    if (s->sh_type != SHT_DYNSYM) continue;
    const Elf64_Sym *symbols = reinterpret_cast<const Elf64_Sym *>(base + s->sh_offset);
    for (const Elf64_Sym *y = symbols; y < symbols + s->sh_size / sizeof *y; y++)
      if (y->st_shndx != SHN_UNDEF && y->st_info == ELF64_ST_INFO(STB_GLOBAL, STT_FUNC))
        out += std::string("ptxas info    : Compiling entry function '") + (base + sections[s->sh_link].sh_offset + y->st_name) +
               "' for 'emulation'\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 32 registers\n";
  }
  return out;
}

} // namespace

extern "C" {

const char *nvrtcGetErrorString(int r) { return r ? "NVRTC_ERROR_EMULATED" : "NVRTC_SUCCESS"; }
int nvrtcVersion(int *major, int *minor) { *major = 0; *minor = 1; return 0; }
int nvrtcCreateProgram(void **out, const char *source, const char *, int n, const char *const *texts, const char *const *names) {
  Program *p = new Program;
  p->source = source;
  for (int i = 0; i < n; i++) p->headers[names[i]] = texts[i];
  *out = p;
  return 0;
}
int nvrtcDestroyProgram(void **p) { delete static_cast<Program *>(*p); *p = nullptr; return 0; }
int nvrtcCompileProgram(void *v, int n, const char *const *options) {
  Program *p = static_cast<Program *>(v);
  char dir[] = P_tmpdir "/epbench-nvrtc-XXXXXX";
  if (!mkdtemp(dir)) return 1;
  std::string d = dir, flags;
  for (auto &h : p->headers) write(d + "/" + h.first, h.second);
  write(d + "/variant.cc", p->source);
  for (int i = 0; i < n; i++)
    if (!strncmp(options[i], "-D", 2)) flags += std::string(" ") + options[i];
  const char *emul = getenv("EMUL_SRC");
  std::string cmd = "g++ -std=c++20 -Og -fno-exceptions -fno-asynchronous-unwind-tables -nostdlib -shared -fPIC -DEP_EMULATE -ffp-contract=off -w -I" + d + " -I" + (emul ? emul : ".") + flags +
                    " -o " + d + "/out.so " + d + "/variant.cc -lgcc > " + d + "/log 2>&1";
  int r = system(cmd.c_str());
  p->image = r ? "" : read(d + "/out.so");
  p->log = r ? read(d + "/log") : usage(p->image);
  r |= system(("rm -rf " + d).c_str());
  return r ? 6 : 0;
}
int nvrtcGetProgramLogSize(void *p, size_t *n) { *n = static_cast<Program *>(p)->log.size() + 1; return 0; }
int nvrtcGetProgramLog(void *p, char *s) { strcpy(s, static_cast<Program *>(p)->log.c_str()); return 0; }
int nvrtcGetCUBINSize(void *p, size_t *n) { *n = static_cast<Program *>(p)->image.size(); return 0; }
int nvrtcGetCUBIN(void *p, char *s) { memcpy(s, static_cast<Program *>(p)->image.data(), static_cast<Program *>(p)->image.size()); return 0; }

} // extern "C"
