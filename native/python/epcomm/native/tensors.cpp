#include "native.h"

#include <atomic>

namespace native {

int32_t dtype_of(Elements e) {
  static const int32_t numbers[] = {aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float8_e4m3fn(), aoti_torch_dtype_float32(),
                                    aoti_torch_dtype_int32(), aoti_torch_dtype_int64(), aoti_torch_dtype_uint8(), aoti_torch_dtype_bool()};
  return numbers[e];
}

bool wide(Ref ids) {
  int32_t number = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(ids.handle, &number));
  return number == dtype_of(INT64);
}

Place place_of(Ref t) {
  Place p = {0, 0};
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(t.handle, &p.type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(t.handle, &p.index));
  return p;
}

const int64_t *sizes_of(Ref t, int64_t *dims) {
  int64_t *sizes = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(t.handle, dims));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(t.handle, &sizes));
  return sizes;
}

void *address(Ref t) {
  void *p = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(t.handle, &p));
  return p;
}

static std::atomic<int32_t> device_type{-1};

void serve(int32_t device) { device_type = device < 0 ? aoti_torch_device_type_cpu() : aoti_torch_device_type_cuda(); }

static bool readable(Ref t) {
  int32_t type = 0, wanted = device_type;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(t.handle, &type));
  return wanted >= 0 ? type == wanted : type == aoti_torch_device_type_cpu() || type == aoti_torch_device_type_cuda();
}

bool is(Ref t, Elements elements, std::initializer_list<int64_t> sizes) {
  if (!readable(t)) return false;
  int32_t number = 0;
  int64_t dims = 0;
  bool contiguous = false;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.handle, &number));
  const int64_t *given = sizes_of(t, &dims);
  if (number != dtype_of(elements) || dims != static_cast<int64_t>(sizes.size())) return false;
  for (int64_t n : sizes) {
    if (n >= 0 && *given != n) return false;
    given++;
  }
  TORCH_ERROR_CODE_CHECK(aoti_torch_is_contiguous(t.handle, &contiguous));
  return contiguous;
}

static void contiguous(const int64_t *sizes, size_t n, int64_t *strides) {
  int64_t step = 1;
  for (size_t i = n; i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] > 0 ? sizes[i] : 1;
  }
}

Owned make(Place place, Elements elements, std::initializer_list<int64_t> sizes) {
  Timer timer(ALLOCATION);
  int64_t strides[8];
  contiguous(sizes.begin(), sizes.size(), strides);
  AtenTensorHandle out = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.begin(), strides, dtype_of(elements),
                                                  place.type, place.index, &out));
  return Owned(out);
}

static Owned viewed(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes, const int64_t *strides) {
  Timer timer(ALLOCATION);
  AtenTensorHandle out = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch__alloc_from_pool(bytes.handle, at, dtype_of(elements), static_cast<int64_t>(sizes.size()),
                                                     sizes.begin(), strides, &out));
  return Owned(out);
}

Owned view(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes) {
  int64_t strides[8];
  contiguous(sizes.begin(), sizes.size(), strides);
  return viewed(bytes, at, elements, sizes, strides);
}
Owned view(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
  return viewed(bytes, at, elements, sizes, strides.begin());
}

} // namespace native
