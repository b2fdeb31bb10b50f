// Columns to which values are appended one by one, for tables that are small compared with the frame table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "columns/bitmap.hpp"
#include "columns/column.hpp"

namespace acapella {

template <typename T>
struct ArrowFormat;
template <>
struct ArrowFormat<std::uint8_t> {
    static constexpr const char* text = "C";
};
template <>
struct ArrowFormat<std::uint16_t> {
    static constexpr const char* text = "S";
};
template <>
struct ArrowFormat<std::uint32_t> {
    static constexpr const char* text = "I";
};
template <>
struct ArrowFormat<std::uint64_t> {
    static constexpr const char* text = "L";
};
template <>
struct ArrowFormat<std::int64_t> {
    static constexpr const char* text = "l";
};
template <>
struct ArrowFormat<double> {
    static constexpr const char* text = "g";
};

template <typename T>
class Values {
  public:
    void add(T value) { values_.push_back(value); }
    std::size_t size() const { return values_.size(); }
    Column column(std::string name, bool nullable = false) const {
        return {.name = std::move(name),
                .format = ArrowFormat<T>::text,
                .nullable = nullable,
                .length = static_cast<std::int64_t>(values_.size()),
                .buffers = {nullptr, values_.data()}};
    }

  private:
    std::vector<T> values_;
};

template <typename T>
class NullableValues {
  public:
    void add(std::optional<T> value) {
        values_.push_back(value.value_or(T{}));
        valid_.add(value.has_value());
    }
    Column column(std::string name) const {
        return {.name = std::move(name),
                .format = ArrowFormat<T>::text,
                .nullable = true,
                .length = static_cast<std::int64_t>(values_.size()),
                .null_count = valid_.nulls(),
                .buffers = {valid_.buffer(), values_.data()}};
    }

  private:
    std::vector<T> values_;
    Bitmap valid_;
};

class NullableTexts {
  public:
    void add(std::optional<std::string_view> text) {
        texts_.add(text.value_or(std::string_view{}));
        valid_.add(text.has_value());
    }
    Column column(std::string name) const {
        return texts_.column(std::move(name), true, valid_.buffer(), valid_.nulls());
    }

  private:
    Strings texts_;
    Bitmap valid_;
};

class Booleans {
  public:
    void add(bool value) {
        bits_.add(value);
        ++size_;
    }
    Column column(std::string name) const {
        return {.name = std::move(name), .format = "b", .length = size_, .buffers = {nullptr, bits_.words()}};
    }

  private:
    Bitmap bits_;
    std::int64_t size_ = 0;
};

class NullableBooleans {
  public:
    void add(std::optional<bool> value) {
        bits_.add(value.value_or(false));
        valid_.add(value.has_value());
        ++size_;
    }
    Column column(std::string name) const {
        return {.name = std::move(name),
                .format = "b",
                .nullable = true,
                .length = size_,
                .null_count = valid_.nulls(),
                .buffers = {valid_.buffer(), bits_.words()}};
    }

  private:
    Bitmap bits_;
    Bitmap valid_;
    std::int64_t size_ = 0;
};

// The offsets of a list column whose elements are in another column.
class ListOffsets {
  public:
    void close(std::size_t elements) { offsets_.push_back(static_cast<std::int32_t>(elements)); }
    Column column(std::string name, Column elements) const {
        Column list{.name = std::move(name),
                    .format = "+l",
                    .length = static_cast<std::int64_t>(offsets_.size()) - 1,
                    .buffers = {nullptr, offsets_.data()}};
        list.children.push_back(std::move(elements));
        return list;
    }

  private:
    std::vector<std::int32_t> offsets_{0};
};

}  // namespace acapella
