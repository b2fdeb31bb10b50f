#include "bindings/errors.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "containers/memory_limit.hpp"
#include "input/input_error.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

constexpr int kInternal = 70;  // exit codes of acapella_core.errors
constexpr int kOutside = 75;
constexpr std::size_t kMaxReason = 200;

[[noreturn]] void exit_with_line(std::string_view message, int code) {
    std::string line = "acapella: error: " + std::string{message} + '\n';
    std::replace_if(
        line.begin(), line.end() - 1, [](unsigned char byte) { return byte < ' '; }, ' ');
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(code);
}

// Called for exceptions that cannot be caught: Arrow calls `noexcept` functions that write output, and DuckDB
// destroys incomplete objects after a failed allocation.
[[noreturn]] void terminate() {
    try {
        if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
    } catch (const std::bad_alloc&) {
        exit_with_line("out of memory", kOutside);
    } catch (const std::exception& error) {
        const std::string_view reason{error.what()};
        exit_with_line(
            "a library failed, perhaps because memory is short: " + std::string{reason.substr(0, kMaxReason)},
            kInternal);
    } catch (...) {  // NOLINT(bugprone-empty-catch): not a C++ exception
    }
    exit_with_line("a library ended the program", kInternal);
}

}  // namespace

void bind_errors(nb::module_& module) {
    register_numbered<input::InputError>(
        nb::exception<input::InputError>(module, "InputError", PyExc_OSError));
    nb::exception<MemoryLimitError>(module, "MemoryLimitError", PyExc_MemoryError);
    std::set_terminate(terminate);
}

}  // namespace acapella
