// What is shown in place of a page whose code failed.
import { Component } from 'react';
import type { ReactNode } from 'react';
import { Button } from './button.js';
import { EmptyState } from './states.js';

export class ErrorBoundary extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    return (
      <div role="alert">
        <EmptyState
          icon="warning"
          title="This page has failed"
          action={<Button onClick={() => location.reload()}>Load it again</Button>}
        >
          The rest of the dashboard still works. If it happens again, tell whoever runs this server what you did.
        </EmptyState>
      </div>
    );
  }
}
