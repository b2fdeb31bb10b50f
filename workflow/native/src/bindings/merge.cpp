#include "bindings/merge.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/file_facts.hpp"
#include "input/merge.hpp"

namespace nb = nanobind;

namespace acapella {

using input::Merge;

void bind_merge(nb::module_& module) {
    nb::exception<input::MergeError>(module, "MergeError", PyExc_ValueError);
    nb::class_<Merge>(module, "Merge", "Captures as one, in order of time: see acapella.merged")
        .def(nb::init<const std::vector<std::string>&>(), nb::arg("paths"))
        .def("write", &Merge::write, nb::arg("descriptor"), nb::call_guard<nb::gil_scoped_release>())
        .def("facts", [](const Merge& merge) {
            nb::list files;
            for (const input::FileFacts& facts : merge.facts()) files.append(file_dict(facts));
            return files;
        });
}

}  // namespace acapella
