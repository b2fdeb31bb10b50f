#include "columns/column.hpp"

#include <deque>

namespace acapella {
namespace {

// The memory of an exported node, which its release() function frees.
struct SchemaNode {
    std::string name;
    std::string format;
    std::deque<ArrowSchema> children;
    std::vector<ArrowSchema*> pointers;
    ArrowSchema dictionary;
};

struct ArrayNode {
    std::shared_ptr<const void> owner;
    std::vector<const void*> buffers;
    std::deque<ArrowArray> children;
    std::vector<ArrowArray*> pointers;
    ArrowArray dictionary;
};

// The receiver may move children out and mark them as released. Such children are skipped.
template <typename Node, typename Exported>
void release(Exported* exported) {
    for (std::int64_t i = 0; i < exported->n_children; ++i)
        if (exported->children[i]->release != nullptr) exported->children[i]->release(exported->children[i]);
    if (exported->dictionary != nullptr && exported->dictionary->release != nullptr)
        exported->dictionary->release(exported->dictionary);
    delete static_cast<Node*>(exported->private_data);
    exported->release = nullptr;
}

}  // namespace

void export_schema(const Column& column, ArrowSchema* schema) {
    auto node = std::make_unique<SchemaNode>();
    node->name = column.name;
    node->format = column.format;
    for (const Column& child : column.children) {
        export_schema(child, &node->children.emplace_back());
        node->pointers.push_back(&node->children.back());
    }
    if (column.dictionary) export_schema(*column.dictionary, &node->dictionary);
    *schema = {.format = node->format.c_str(),
               .name = node->name.c_str(),
               .metadata = nullptr,
               .flags = column.nullable ? ARROW_FLAG_NULLABLE : 0,
               .n_children = static_cast<std::int64_t>(node->pointers.size()),
               .children = node->pointers.data(),
               .dictionary = column.dictionary ? &node->dictionary : nullptr,
               .release = release<SchemaNode, ArrowSchema>,
               .private_data = node.get()};
    static_cast<void>(node.release());  // the receiver frees it
}

void export_array(const Column& column, std::shared_ptr<const void> owner, ArrowArray* array) {
    auto node = std::make_unique<ArrayNode>();
    node->owner = owner;
    node->buffers = column.buffers;
    for (const Column& child : column.children) {
        export_array(child, owner, &node->children.emplace_back());
        node->pointers.push_back(&node->children.back());
    }
    if (column.dictionary) export_array(*column.dictionary, owner, &node->dictionary);
    *array = {.length = column.length,
              .null_count = column.null_count,
              .offset = 0,
              .n_buffers = static_cast<std::int64_t>(node->buffers.size()),
              .n_children = static_cast<std::int64_t>(node->pointers.size()),
              .buffers = node->buffers.data(),
              .children = node->pointers.data(),
              .dictionary = column.dictionary ? &node->dictionary : nullptr,
              .release = release<ArrayNode, ArrowArray>,
              .private_data = node.get()};
    static_cast<void>(node.release());  // the receiver frees it
}

Column Strings::column(std::string name, bool nullable, const void* validity, std::int64_t null_count) const {
    return {.name = std::move(name),
            .format = "u",
            .nullable = nullable,
            .length = size(),
            .null_count = null_count,
            .buffers = {validity, offsets_.data(), bytes_.data()}};
}

}  // namespace acapella
