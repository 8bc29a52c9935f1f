// Shows an error page in place of a page that failed to render.
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
          title="Something went wrong on this page"
          action={<Button onClick={() => location.reload()}>Reload page</Button>}
        >
          The rest of the dashboard still works. If this happens again, report what you did to the operator of this
          server.
        </EmptyState>
      </div>
    );
  }
}
