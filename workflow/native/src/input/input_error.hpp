// The exception thrown by the readers if a file is not a capture, or cannot be opened or read.
#pragma once

#include <stdexcept>
#include <string>

namespace acapella::input {

// `kind` is a stable name: cannot_open, read_error, empty_file, cut_header, not_a_capture,
// unsupported_format, unsupported_version, bad_header, cut_compressed, bad_compression, decompression_limit,
// trailing_bytes, changed, bad_positions, too_many_interfaces. what() is one line, "where: what". `number` is
// errno after a failed system call, else 0.
class InputError : public std::runtime_error {
  public:
    InputError(std::string kind, const std::string& where, const std::string& what, int number = 0)
        : std::runtime_error(where + ": " + what), kind_(std::move(kind)), number_(number) {}

    [[nodiscard]] const std::string& kind() const { return kind_; }
    [[nodiscard]] int number() const { return number_; }

  private:
    std::string kind_;
    int number_;
};

}  // namespace acapella::input
