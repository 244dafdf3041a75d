#include "native.h"

#include <vector>

namespace native {

int32_t dtype_of(Elements e) {
  static const int32_t numbers[] = {aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float8_e4m3fn(), aoti_torch_dtype_float32(),
                                    aoti_torch_dtype_int32(), aoti_torch_dtype_int64(), aoti_torch_dtype_uint8(), aoti_torch_dtype_bool()};
  return numbers[e];
}

bool wide(const Tensor &ids) {
  int32_t number = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(ids.get(), &number));
  return number == dtype_of(INT64);
}

Place place_of(const Tensor &t) {
  Place p = {0, 0};
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(t.get(), &p.type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(t.get(), &p.index));
  return p;
}

bool is(const Tensor &t, Elements elements, std::initializer_list<int64_t> sizes) {
  int32_t number = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.get(), &number));
  if (number != dtype_of(elements) || t.dim() != static_cast<int64_t>(sizes.size()) || !t.is_contiguous()) return false;
  int64_t dim = 0;
  for (int64_t n : sizes) {
    if (n >= 0 && t.size(dim) != n) return false;
    dim++;
  }
  return true;
}

/* Writes the strides of a contiguous tensor. */
static void contiguous(const int64_t *sizes, size_t n, int64_t *strides) {
  int64_t step = 1;
  for (size_t i = n; i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] > 0 ? sizes[i] : 1;
  }
}

static Tensor made(Place place, Elements elements, std::initializer_list<int64_t> sizes, const int64_t *strides) {
  Timer timer(ALLOCATION);
  AtenTensorHandle out = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.begin(), strides, dtype_of(elements),
                                                  place.type, place.index, &out));
  return Tensor(out);
}

static Tensor viewed(const Tensor &bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes, const int64_t *strides) {
  Timer timer(ALLOCATION);
  AtenTensorHandle out = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch__alloc_from_pool(bytes.get(), at, dtype_of(elements), static_cast<int64_t>(sizes.size()),
                                                     sizes.begin(), strides, &out));
  return Tensor(out);
}

Tensor make(Place place, Elements elements, std::initializer_list<int64_t> sizes) {
  int64_t strides[8];
  contiguous(sizes.begin(), sizes.size(), strides);
  return made(place, elements, sizes, strides);
}
Tensor make(Place place, Elements elements, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
  return made(place, elements, sizes, strides.begin());
}

Tensor view(const Tensor &bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes) {
  int64_t strides[8];
  contiguous(sizes.begin(), sizes.size(), strides);
  return viewed(bytes, at, elements, sizes, strides);
}
Tensor view(const Tensor &bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
  return viewed(bytes, at, elements, sizes, strides.begin());
}

} // namespace native
