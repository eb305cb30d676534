"""Learns to balance a pole on a cart by trying: policy gradient with a learned baseline.

Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement
Learning" (REINFORCE), 1992; the physics is that of Barto, Sutton and Anderson, 1983.
"""

import math
import random

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


class CartPole:
    """A pole hinged to a cart, which is pushed left or right every 20 ms, for at most 500 steps.

    The state is position, speed, angle and angular speed; every step before the fall earns 1.
    """

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    LONGEST = 500

    def __init__(self, seed):
        self.random = random.Random(seed)

    def reset(self):
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        self.steps = 0
        return self.state

    def step(self, action):
        position, speed, angle, turning = self.state
        force = self.FORCE if action == 1 else -self.FORCE
        sine, cosine = math.sin(angle), math.cos(angle)
        mass = self.CART + self.POLE
        push = (force + self.POLE * self.HALF_LENGTH * turning**2 * sine) / mass
        inertia = self.HALF_LENGTH * (4 / 3 - self.POLE * cosine**2 / mass)
        angular = (self.GRAVITY * sine - cosine * push) / inertia
        linear = push - self.POLE * self.HALF_LENGTH * angular * cosine / mass
        rates = (speed, linear, turning, angular)
        self.state = [x + self.SECONDS * rate for x, rate in zip(self.state, rates)]
        self.steps += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)
        return self.state, fell or self.steps == self.LONGEST


class ActorCritic(nn.Module):
    """From a state: the logits of the two actions, and how long the pole is expected to stand."""

    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh())
        self.actor = nn.Linear(width, 2)
        self.critic = nn.Linear(width, 1)

    def forward(self, states):
        hidden = self.body(states)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


def play(model, cart):
    """One episode: log probabilities of the actions taken, values expected, and entropies."""
    state, done, taken = cart.reset(), False, []
    while not done:
        logits, value = model(torch.tensor(state))
        log_probabilities = logits.log_softmax(dim=-1)
        probabilities = log_probabilities.exp()
        action = torch.multinomial(probabilities, 1).item()
        entropy = -(probabilities * log_probabilities).sum()
        taken.append(torch.stack([log_probabilities[action], value, entropy]))
        state, done = cart.step(action)
    return torch.stack(taken).unbind(1)


def train_episode(model, optimizer, cart, discount=0.99):
    """Play once, make what went better than expected likelier, and return the episode's length."""
    log_probabilities, values, entropies = play(model, cart)
    returns, after = [], 0.0
    for _ in range(len(values)):
        after = 1.0 + discount * after
        returns.append(after)
    returns = torch.tensor(returns[::-1]) * (1 - discount)
    advantages = returns - values.detach()
    loss = (F.smooth_l1_loss(values, returns)
            - (log_probabilities * advantages).mean() - 0.01 * entropies.mean())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return len(returns)


def main(episodes=1000, seed=0):
    torch.manual_seed(seed)
    cart = CartPole(seed)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    average = 0.0
    for episode in range(1, episodes + 1):
        average += 0.05 * (train_episode(model, optimizer, cart) - average)
        if episode % 50 == 0:
            print(f"episode {episode}: the pole stands {average:.0f} steps on average")
        if average > 475:
            print(f"solved after {episode} episodes")
            break
    return average


if __name__ == "__main__":
    main()
