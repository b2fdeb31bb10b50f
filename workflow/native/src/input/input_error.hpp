// The one exception of the readers: what a file is not, found while opening it.
#pragma once

#include <stdexcept>
#include <string>

namespace acapella::input {

// `kind` is a stable snake_case name: cannot_open, read_error, empty_file, cut_header, not_a_capture,
// unsupported_format, unsupported_version, bad_header, cut_compressed, bad_compression,
// decompression_limit.
// what() is one line, "where: what".
class InputError : public std::runtime_error {
  public:
    InputError(std::string kind, const std::string& where, const std::string& what)
        : std::runtime_error(where + ": " + what), kind_(std::move(kind)) {}

    [[nodiscard]] const std::string& kind() const { return kind_; }

  private:
    std::string kind_;
};

}  // namespace acapella::input
