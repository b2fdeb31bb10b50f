#include "bindings/merge.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/batches.hpp"
#include "bindings/file_info.hpp"
#include "input/byte_source.hpp"
#include "input/input_error.hpp"
#include "input/merge.hpp"

namespace nb = nanobind;

namespace acapella {

using input::Merge;

namespace {

// Decompresses a capture for another program.
class Decompression {
  public:
    Decompression(const std::string& path, const input::DecompressionLimits& limits)
        : source_(input::ByteSource::open(path, limits)) {
        if (source_->view(1).empty() && !source_->fault().kind.empty())
            throw input::InputError(source_->fault().kind, path, source_->fault().what,
                                    source_->fault().number);
    }

    // Returns the number of bytes written. Stops if the reader closes the pipe.
    std::uint64_t write(int descriptor, std::uint64_t max_bytes) {
        input::ByteSink sink(descriptor);
        return source_->copy(sink, max_bytes);
    }

    // Returns (kind, detail) of the fault that ended the data; both are empty if there was none so far.
    std::pair<std::string, std::string> fault() const {
        return {source_->fault().kind, source_->fault().what};
    }

    std::string compression() const { return input::name_of(source_->compression()); }

  private:
    std::unique_ptr<input::ByteSource> source_;
};

}  // namespace

void bind_merge(nb::module_& module) {
    nb::class_<Decompression>(module, "Decompression",
                              "Decompresses a capture for another program: see acapella.common.decompression")
        .def(nb::init<const std::string&, const input::DecompressionLimits&>(), nb::arg("path"),
             nb::arg("limits") = input::DecompressionLimits(), ReleasesGil())
        .def("write", &Decompression::write, nb::arg("descriptor"), nb::arg("max_bytes"), ReleasesGil())
        .def("fault", &Decompression::fault)
        .def("compression", &Decompression::compression);
    nb::exception<input::MergeError>(module, "MergeError", PyExc_ValueError);
    nb::class_<Merge>(module, "Merge", "Merges captures by time: see acapella.digest.merged")
        .def(nb::init<const std::vector<std::string>&, const input::DecompressionLimits&>(), nb::arg("paths"),
             nb::arg("limits") = input::DecompressionLimits(), ReleasesGil())
        .def("write", &Merge::write, nb::arg("descriptor"), ReleasesGil())
        .def(
            "take_captures",
            [](Merge& merge, std::size_t count) {
                const std::vector<std::uint32_t> captures = merge.take_captures(count);
                return nb::bytes(reinterpret_cast<const char*>(captures.data()),
                                 captures.size() * sizeof(captures[0]));
            },
            nb::arg("count"))
        .def("info", [](const Merge& merge) {
            nb::list files;
            for (const input::FileInfo& info : merge.info()) files.append(file_dict(info));
            return files;
        });
}

}  // namespace acapella
