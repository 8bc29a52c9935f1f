// Schemas of the request bodies of the conversations API. Items are validated separately, one at a time; see items.ts.
import { z } from 'zod';
import { metadataField } from '../fields.js';
import { itemSchema } from '../responses/schema-items.js';

/** Maximum number of items per request, as in OpenAI's API. */
export const MAX_ITEMS = 20;

const list = <T extends z.ZodType>(item: T): z.ZodArray<T> => z.array(item).max(MAX_ITEMS);

export const conversationSchema = z.object({ items: list(itemSchema).nullish(), metadata: metadataField });
export const conversationUpdateSchema = z.object({ metadata: metadataField }).meta({ required: ['metadata'] });
export const conversationItemsSchema = z.object({ items: list(itemSchema).min(1) });

export const conversationEnvelope = conversationSchema.extend({ items: list(z.unknown()).nullish() });
export const itemsEnvelope = z.object({ items: list(z.unknown()).min(1) });
