#include "bindings/arrow_batch.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

// PyCapsule interface: a capsule that was not consumed releases its content when it is destroyed.
template <typename Exported>
void destroy(void* pointer) noexcept {
    auto* exported = static_cast<Exported*>(pointer);
    if (exported->release != nullptr) exported->release(exported);
    delete exported;
}

}  // namespace

nb::tuple ArrowBatch::arrow_c_array() const {
    auto schema = std::make_unique<ArrowSchema>();
    export_schema(batch_.columns, schema.get());
    nb::capsule schema_capsule(schema.release(), "arrow_schema", destroy<ArrowSchema>);
    auto array = std::make_unique<ArrowArray>();
    export_array(batch_.columns, batch_.owner, array.get());
    nb::capsule array_capsule(array.release(), "arrow_array", destroy<ArrowArray>);
    return nb::make_tuple(schema_capsule, array_capsule);
}

void bind_arrow_batch(nb::module_& module) {
    nb::class_<ArrowBatch>(module, "ArrowBatch", "Rows in Arrow's memory layout")
        .def("__len__", &ArrowBatch::rows)
        .def(
            "__arrow_c_array__", [](const ArrowBatch& batch, nb::object) { return batch.arrow_c_array(); },
            nb::arg("requested_schema") = nb::none());
}

}  // namespace acapella
