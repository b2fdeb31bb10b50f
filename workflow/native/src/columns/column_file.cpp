#include "columns/column_file.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace acapella {
namespace {

static_assert(std::endian::native == std::endian::little, "the buffers of columns are stored as they are");

constexpr std::size_t kAlignment = 8;

void append_number(std::string& to, std::uint64_t number) {
    std::array<char, sizeof number> bytes{};
    std::memcpy(bytes.data(), &number, sizeof number);
    to.append(bytes.data(), bytes.size());
}

void append_padded(std::string& to, std::string_view bytes) {
    append_number(to, bytes.size());
    to.append(bytes);
    to.append((kAlignment - bytes.size() % kAlignment) % kAlignment, '\0');
}

std::size_t width_of(char format) {
    switch (format) {
        case 'C':
            return 1;
        case 'S':
            return 2;
        case 'I':
            return 4;
        case 'L':
        case 'l':
        case 'g':
            return 8;
        default:
            throw std::invalid_argument(std::string("columns of format ") + format + " cannot be stored");
    }
}

// Returns the length in bytes of a column's buffer `number` (not 0, which is the validity).
std::size_t length_of(const Column& column, std::size_t number) {
    const auto rows = static_cast<std::size_t>(column.length);
    if (number == 2) {  // the bytes of texts, which end at the last offset
        const auto* offsets = static_cast<const std::int32_t*>(column.buffers[1]);
        return static_cast<std::size_t>(offsets[rows]);
    }
    if (column.format == "u" || column.format == "+l") return (rows + 1) * sizeof(std::int32_t);
    if (column.format == "b") return (rows + 7) / 8;
    return rows * width_of(column.format.front());
}

void append_buffer(std::string& to, const Column& column, std::size_t number) {
    const void* buffer = column.buffers[number];
    if (number == 0 && buffer == nullptr) {
        append_number(to, kNoBuffer);
        return;
    }
    const std::size_t bytes =
        number == 0 ? (static_cast<std::size_t>(column.length) + 7) / 8 : length_of(column, number);
    append_padded(to, {static_cast<const char*>(buffer), bytes});
}

void append_column(std::string& to, const Column& column) {
    append_padded(to, column.name);
    append_padded(to, column.format);
    append_number(to, column.nullable ? 1 : 0);
    append_number(to, static_cast<std::uint64_t>(column.length));
    append_number(to, static_cast<std::uint64_t>(column.null_count));
    append_number(to, column.buffers.size());
    append_number(to, column.children.size());
    append_number(to, column.dictionary ? 1 : 0);
    for (std::size_t i = 0; i < column.buffers.size(); ++i) append_buffer(to, column, i);
    for (const Column& child : column.children) append_column(to, child);
    if (column.dictionary) append_column(to, *column.dictionary);
}

}  // namespace

void append_block(std::string& file, std::string_view kind, std::string_view payload) {
    file.append(kind);
    append_padded(file, payload);
}

std::string payload_of(const Batch& batch) {
    std::string payload;
    append_column(payload, batch.columns);
    return payload;
}

}  // namespace acapella
