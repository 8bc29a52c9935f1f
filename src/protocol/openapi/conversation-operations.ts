// The operations on conversations in the OpenAPI document. No side effects.
import { include, itemPaging } from './item-paging.js';

/** Entries of `operations` in document.ts. */
export const conversationOperations = [
  {
    method: 'post',
    path: '/v1/conversations',
    id: 'createConversation',
    summary: 'Create a conversation, optionally with up to 20 items.',
    request: 'ConversationRequest',
    answer: 'Conversation',
  },
  {
    method: 'get',
    path: '/v1/conversations/{id}',
    id: 'retrieveConversation',
    summary: 'Get a conversation.',
    answer: 'Conversation',
  },
  {
    method: 'post',
    path: '/v1/conversations/{id}',
    id: 'updateConversation',
    summary: "Replace a conversation's metadata.",
    request: 'ConversationUpdateRequest',
    answer: 'Conversation',
  },
  {
    method: 'delete',
    path: '/v1/conversations/{id}',
    id: 'deleteConversation',
    summary: 'Delete a conversation and its items. Responses that were created in it are kept.',
    answer: 'ConversationDeleted',
  },
  {
    method: 'post',
    path: '/v1/conversations/{id}/items',
    id: 'addConversationItems',
    summary: 'Add up to 20 items to a conversation.',
    request: 'ConversationItemsRequest',
    answer: 'ResponseItemList',
    query: include,
  },
  {
    method: 'get',
    path: '/v1/conversations/{id}/items',
    id: 'listConversationItems',
    summary: "List a conversation's items.",
    answer: 'ResponseItemList',
    query: itemPaging,
  },
  {
    method: 'get',
    path: '/v1/conversations/{id}/items/{item}',
    id: 'retrieveConversationItem',
    summary: 'Get an item of a conversation.',
    answer: 'ConversationItem',
    query: include,
  },
  {
    method: 'delete',
    path: '/v1/conversations/{id}/items/{item}',
    id: 'deleteConversationItem',
    summary: 'Delete an item from a conversation.',
    answer: 'Conversation',
  },
] as const;
