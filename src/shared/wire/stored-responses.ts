// Stored responses.

/** GET …/responses: without the content, apart from the first words of the prompt. */
export interface StoredResponseObject {
  id: string;
  model: string;
  status: string;
  background: boolean;
  created_at: string;
  expires_at: string;
  preview: string | null;
}

/** One item of a conversation. `cut`: whether the text is truncated. */
export interface ConversationItem {
  kind: 'message' | 'reasoning' | 'call' | 'result' | 'other';
  role: string | null;
  name: string | null;
  text: string;
  cut: boolean;
  images: number;
}
export interface ConversationTurn {
  id: string;
  model: string;
  status: string;
  created_at: string;
  input: ConversationItem[];
  output: ConversationItem[];
}
/**
 * GET …/responses/{id}: includes all preceding responses, oldest first. `earlier`: number of older responses that are
 * not included.
 */
export interface StoredConversation {
  object: 'conversation';
  turns: ConversationTurn[];
  earlier: number;
}

/** GET …/conversations: conversations of the Conversations API, without their items. */
export interface ConversationObject {
  id: string;
  created_at: string;
  /** Number of items. */
  items: number;
  metadata: Readonly<Record<string, string>>;
}
