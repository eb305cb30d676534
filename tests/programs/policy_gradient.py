"""REINFORCE with a learned baseline on a corridor: walk right to the goal."""

from collections import namedtuple
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Corridor:
    """Positions 0 to 6; the walk begins at 3 and ends at either end."""

    def reset(self):
        self.position = 3
        return self.observe()

    def observe(self):
        state = np.zeros(7, dtype=np.float32)
        state[self.position] = 1.0
        return state

    def step(self, action):
        self.position += 1 if action == 1 else -1
        done = self.position in (0, 6)
        return self.observe(), 1.0 if self.position == 6 else -0.1, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(7, 32)
        self.action_head = nn.Linear(32, 2)
        self.value_head = nn.Linear(32, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.log_softmax(self.action_head(x), dim=-1), self.value_head(x)


def select_action(model, state):
    state = torch.from_numpy(state).float()
    log_probs, state_value = model(state)
    action = torch.multinomial(log_probs.exp().detach(), 1)
    model.saved_actions.append(SavedAction(log_probs.gather(0, action), state_value))
    return action.item()


def finish_episode(model, optimizer, gamma=0.95):
    R, returns = 0, []
    for r in model.rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    policy_losses, value_losses = [], []
    for (log_prob, value), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    return loss.item()


def main():
    torch.manual_seed(543)
    env, model = Corridor(), Policy()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    running_reward = 0.0
    for i_episode in count(1):
        state, ep_reward = env.reset(), 0
        for _ in range(1, 50):
            action = select_action(model, state)
            state, reward, done = env.step(action)
            model.rewards.append(reward)
            ep_reward += reward
            if done:
                break
        running_reward = 0.05 * ep_reward + (1 - 0.05) * running_reward
        loss = finish_episode(model, optimizer)
        if i_episode <= 2:
            print(f"Episode {i_episode}\tLast reward: {ep_reward:.2f}\tLoss: {loss:.3f}")
        if running_reward > 0.7:
            break
        assert i_episode < 400, running_reward


if __name__ == "__main__":
    main()
