import torch


class DDPMScheduler:
    """Noise is added along Stable Diffusion's schedule, and taken away by DDIM's steps."""

    def __init__(self, num_train_timesteps=1000):
        self.num_train_timesteps = num_train_timesteps
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, num_train_timesteps) ** 2
        self.alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)

    def draw(self, count):
        return torch.randint(0, self.num_train_timesteps, (count,))

    def add_noise(self, latents, noise, timesteps):
        alphas = self.alphas_cumprod.to(latents)[timesteps.long()].view(-1, 1, 1, 1)
        return alphas.sqrt() * latents + (1 - alphas).sqrt() * noise

    def target(self, latents, noise):
        return noise

    def steps(self, count):
        times = torch.linspace(self.num_train_timesteps - 1, 0, count + 1).long().tolist()
        return list(zip(times, times[1:]))

    def step(self, noise, timestep, then, latents):
        now, next_ = (self.alphas_cumprod[each].item() for each in (timestep, then))
        clean = (latents - (1 - now) ** 0.5 * noise) / now**0.5
        return next_**0.5 * clean + (1 - next_) ** 0.5 * noise


class FlowMatchScheduler:
    """A straight way from the latents to noise; a timestep of 1000 is all noise."""

    def __init__(self, shift=3.0):
        self.shift = shift

    def draw(self, count):
        return torch.sigmoid(torch.randn(count)) * 1000.0

    def add_noise(self, latents, noise, timesteps):
        sigmas = (timesteps / 1000.0).to(latents).view(-1, 1, 1, 1)
        return (1.0 - sigmas) * latents + sigmas * noise

    def target(self, latents, noise):
        return noise - latents

    def steps(self, count):
        sigmas = [self.shift * each / (1 + (self.shift - 1) * each) for each in torch.linspace(1, 0, count + 1).tolist()]
        return list(zip(sigmas, sigmas[1:]))


def get_sampler(name):
    return FlowMatchScheduler() if name == "flowmatch" else DDPMScheduler()
