// Validates the items that a client adds to a conversation and converts them to the stored form. Unlike the input of a
// response, the items may be an incomplete turn, such as a tool call without its result. No side effects.
import { apiError } from '../../shared/errors.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import type { StoredItem } from '../../storage/response-store.js';
import { withType } from '../responses/bounds.js';
import { openSeals } from '../responses/input.js';
import { toKept } from '../responses/items.js';
import { itemSchema, type WireItem } from '../responses/schema-items.js';
import { validateList } from '../validation.js';

/** Throws ApiError 400 if an item is invalid, and 422 if it cannot be stored. */
export function readItems(
  list: readonly unknown[],
  context: { sealer: Sealer; organizationId: string; rejects: boolean },
): StoredItem[] {
  const items = validateList(itemSchema, list, 'items', withType);
  if (!items.ok) throw items.error;
  openSeals(items.value, context, 'items');
  return items.value.map((item, index) => {
    const { imagePaths: _paths, ...stored } = kept(item, `items[${index}]`);
    return stored;
  });
}

function kept(item: WireItem, path: string): ReturnType<typeof toKept> {
  switch (item.type) {
    case 'function_call_output':
      if (item.call_id == null)
        throw apiError('missing_required_parameter', `${path}.call_id is required.`, `${path}.call_id`);
      return toKept({ ...item, call_id: item.call_id }, path);
    case 'item_reference':
    case 'additional_tools':
    case 'agent_message':
    case 'agent_reasoning':
    case 'compaction_summary':
    case 'context_compaction':
    case 'ghost_snapshot':
    case 'other':
    case 'compaction_trigger':
    case 'configuration_update':
    case 'program':
    case 'program_output':
      throw apiError(
        'unsupported_content',
        `${path}: items of type ${item.type} cannot be added to a conversation.`,
        path,
      );
    default:
      return toKept(item, path);
  }
}
